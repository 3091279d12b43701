"""A switch with latency and bandwidth for hosts that are network namespaces: this kernel may have no `tc netem`.

switch.py forward PORTS SECONDS BYTES_PER_SECOND     in the namespace of the ports port1, port2, ...
switch.py plain INTERFACE                            lets an interface send whole frames with checksums
"""

import array
import ctypes
import fcntl
import heapq
import os
import select
import socket
import struct
import sys
import time
from contextlib import suppress

SIOCETHTOOL = 0x8946
OFFLOADS = {"checksum": 0x17, "segmentation": 0x1F, "generic segmentation": 0x24, "generic receive": 0x2C}
EVERY_PROTOCOL, OUTGOING = 3, 4


def plain(interface: str) -> None:
    """Turn off what a network card would do later: nobody does it for frames that a process forwards."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for command in OFFLOADS.values():
            value = array.array("B", struct.pack("II", command, 0))
            request = struct.pack("16sP", interface.encode(), value.buffer_info()[0]).ljust(40, b"\0")
            with suppress(OSError):
                fcntl.ioctl(control, SIOCETHTOOL, request)


def forward(ports: int, latency: float, bandwidth: float) -> None:
    """Forward frames for ever; each waits for its port, takes size / bandwidth, and comes `latency` later."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))  # ranks must not delay it
    ctypes.CDLL(None).prctl(29, 1, 0, 0, 0)  # wake up exactly, not up to 50 us later
    links = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERY_PROTOCOL)) for _ in range(ports)]
    for number, link in enumerate(links, start=1):
        link.bind((f"port{number}", EVERY_PROTOCOL))
        link.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
    place_of: dict[bytes, int] = {}
    free = [0.0] * ports
    waiting: list[tuple[float, int, int, bytes]] = []
    count = 0
    while True:
        pause = max(waiting[0][0] - time.monotonic(), 0.0) if waiting else None
        for link in select.select(links, [], [], pause)[0]:
            frame, address = link.recvfrom(1 << 16)
            if address[2] == OUTGOING:
                continue
            now, source = time.monotonic(), links.index(link)
            place_of[frame[6:12]] = source
            known = place_of.get(frame[:6])
            for port in range(ports) if known is None else [known]:
                if port != source:
                    free[port] = max(free[port], now) + len(frame) / bandwidth
                    count += 1
                    heapq.heappush(waiting, (free[port] + latency, count, port, frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, port, frame = heapq.heappop(waiting)
            with suppress(OSError):
                links[port].send(frame)


if __name__ == "__main__":
    if sys.argv[1] == "plain":
        plain(sys.argv[2])
    else:
        forward(int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))

"""Decrypts an array as docs/format.md describes it, with OpenSSL's ciphers, and looks for a text in its log and metadata.

decrypt.py [--raw] FILE KEY-FILE TEXT

Prints "found" or "absent". With --raw nothing is decrypted.
"""

from __future__ import annotations

import hmac
import struct
import sys
from pathlib import Path
from typing import BinaryIO

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

AREA, SECTOR, REGION = 65536, 512, 1 << 40
KEY_BLOCK_AT, COPY_STEP = 8192, 16384
STEP = 1 << 20


def array_key(file: BinaryIO, passphrase: bytes) -> bytes:
    """The key that the second copy of the key block holds."""
    file.seek(COPY_STEP + KEY_BLOCK_AT)
    block = file.read(SECTOR)
    magic, version, cipher, memory, passes, lanes, _ = struct.unpack("<8sHHIIIQ", block[:32])
    assert (magic, version, cipher) == (b"IBIDKEY\0", 1, 1), block[:16]
    derive = Argon2id(salt=block[32:64], length=32, iterations=passes, lanes=lanes, memory_cost=memory)
    return AESGCM(derive.derive(passphrase)).decrypt(block[64:76], block[80:128], block[:80])


def decrypt(keys: bytes, at: int, data: bytes) -> bytes:
    """The bytes at a position of the drive, in whole sectors. Sectors of zeros are not encrypted."""
    out = []
    for start in range(0, len(data), SECTOR):
        sector = data[start : start + SECTOR]
        if sector != bytes(SECTOR):
            tweak = ((at + start) % REGION // SECTOR).to_bytes(16, "little")
            sector = Cipher(algorithms.AES(keys), modes.XTS(tweak)).decryptor().update(sector)
        out.append(sector)
    return b"".join(out)


def main() -> None:
    is_raw = "--raw" in sys.argv
    image, key_file, text = [word for word in sys.argv[1:] if word != "--raw"]
    with Path(image).open("rb") as file:
        passphrase = Path(key_file).read_bytes().rstrip(b"\r\n")
        label = b"ibid data at rest" + (0).to_bytes(8, "little")
        keys = hmac.digest(array_key(file, passphrase), label, "sha512")
        at, before = AREA, b""
        file.seek(at)
        while data := file.read(STEP):
            # Most of a new array was never written.
            if data != bytes(len(data)):
                data = data if is_raw else decrypt(keys, at, data)
            if text.encode() in before + data:
                print("found")
                return
            at, before = at + len(data), data[-len(text) :]
    print("absent")


if __name__ == "__main__":
    main()

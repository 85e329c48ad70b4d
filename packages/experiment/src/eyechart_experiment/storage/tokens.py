"""Uses of the secret: pseudonyms, session tokens, completion codes, the status page's password."""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime

from itsdangerous import BadSignature, Signer
from itsdangerous.signer import SigningAlgorithm

CODE_LETTERS = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"
"""Characters of completion codes; characters easily confused when copied by hand are left out."""


@dataclass(frozen=True)
class Claim:
    """Content of a token with a valid signature: its session and its expiry time."""

    session_id: int
    expires_at: datetime
    token_hash: str


def pseudonym_digest(secret: bytes, platform: str, platform_id: str) -> str:
    """Return the keyed hash that identifies a participant, 64 hexadecimal digits."""
    # Ids contain no NUL byte, so that platform and id are separated unambiguously.
    return _mac(secret, "participant", f"{platform}\0{platform_id}".encode()).hex()


def new_code() -> str:
    """Return a random pseudonym for a participant: "P" and ten letters or digits."""
    return "P" + _random_letters(10)


def new_completion_code() -> str:
    """Return a random code for the end of a session: eight letters or digits."""
    return _random_letters(8)


def _random_letters(n: int) -> str:
    return "".join(secrets.choice(CODE_LETTERS) for _ in range(n))


def new_public_id() -> str:
    """Return an opaque id that cannot be guessed: 128 random bits."""
    return secrets.token_hex(16)


def withdrawn_digest(secret: bytes, code: str) -> str:
    """Return the keyed hash under which a code of a withdrawn participant is remembered."""
    return _mac(secret, "withdrawn", code.encode()).hex()


def make_token(secret: bytes, session_id: int, expires_at: datetime) -> str:
    """Return a signed token for a session; every call returns a different token."""
    nonce = secrets.token_hex(8)
    body = f"{_blinded(secret, session_id, nonce):016x}.{int(expires_at.timestamp())}"
    return _signer(secret).sign(f"{body}.{nonce}").decode()


def read_token(secret: bytes, token: str) -> Claim | None:
    """Return the content of a token, or None if the signature is invalid; expiry is not checked."""
    try:
        body = _signer(secret).unsign(token.encode()).decode()
    except BadSignature:
        return None
    blinded_id, expires, nonce = body.split(".")
    session_id = _blinded(secret, int(blinded_id, 16), nonce)
    return Claim(session_id, datetime.fromtimestamp(int(expires), UTC), token_hash(token))


def status_token(secret: bytes) -> str:
    """Return the password of the status page, 32 hexadecimal digits."""
    return _mac(secret, "status", b"").hex()[:32]


def token_hash(token: str) -> str:
    """Return the hash under which a token is stored, which cannot be used as a token itself."""
    return hashlib.sha256(token.encode()).hexdigest()


def _blinded(secret: bytes, number: int, nonce: str) -> int:
    """Return a session's id combined with a keyed hash of the nonce; the inverse of itself.

    Ids are consecutive numbers. In a token they would tell how many participants there are.
    """
    return number ^ int.from_bytes(_mac(secret, "session", nonce.encode())[:8])


class _ForTokens(SigningAlgorithm):
    """Signatures for tokens, which differ from other hashes with the same secret."""

    def get_signature(self, key: bytes, value: bytes) -> bytes:
        return _mac(key, "token", value)


def _signer(secret: bytes) -> Signer:
    # The secret itself, since `_ForTokens` separates its signatures from other hashes already.
    return Signer(secret, key_derivation="none", algorithm=_ForTokens())


def _mac(secret: bytes, purpose: str, text: bytes) -> bytes:
    """Return the keyed hash of a text; hashes for different purposes are unrelated."""
    # The NUL byte separates purpose and text unambiguously.
    return hmac.digest(secret, purpose.encode() + b"\0" + text, "sha256")

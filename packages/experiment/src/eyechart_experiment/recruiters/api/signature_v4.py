"""AWS Signature Version 4: sign a request, so that the secret key itself is never sent.

As described in "Create a signed AWS API request" of the AWS documentation.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, urlsplit

ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True)
class SigningKey:
    """An access key, and the region and service for which it signs."""

    access_key: str
    secret_key: str
    region: str
    service: str


def sign_request(
    key: SigningKey, method: str, url: str, headers: Mapping[str, str], body: bytes, now: datetime
) -> dict[str, str]:
    """Return the headers that a signed request has in addition to `headers`.

    Args:
        key: The access key.
        method: The HTTP method, such as POST.
        url: The full address.
        headers: All headers that are signed; the host and the date are added.
        body: The content.
        now: The time of the request; the server rejects a signature after a few minutes.

    Example:
        >>> from datetime import UTC, datetime
        >>> key = SigningKey("AKIDEXAMPLE", "SECRET", "us-east-1", "service")
        >>> now = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
        >>> signed = sign_request(key, "GET", "https://example.amazonaws.com/", {}, b"", now)
        >>> signed["X-Amz-Date"]
        '20150830T123600Z'
        >>> signed["Authorization"].split(", ")[1]
        'SignedHeaders=host;x-amz-date'
    """
    parts = urlsplit(url)
    moment = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    # The canonical form has lower-case names, and single spaces in values.
    signed = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    # With the port, if there is one, as urllib sends it in the Host header.
    signed |= {"host": parts.netloc, "x-amz-date": moment}
    names = ";".join(sorted(signed))
    # Sorted, and quoted but for the unreserved characters of RFC 3986: the server does the same.
    query = "&".join(
        f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}"
        for name, value in sorted(parse_qsl(parts.query, keep_blank_values=True))
    )
    canonical = "\n".join(
        [
            method,
            quote(parts.path or "/", safe="/-_.~"),
            query,
            *(f"{name}:{signed[name]}" for name in sorted(signed)),
            # Each header ends with a line feed, and one more ends their list.
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        ]
    )
    scope = f"{moment[:8]}/{key.region}/{key.service}/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join([ALGORITHM, moment, scope, digest])
    signature = hmac.digest(_derived_key(key, moment[:8]), text.encode(), "sha256").hex()
    credential = f"{key.access_key}/{scope}"
    return {
        "X-Amz-Date": moment,
        "Authorization": f"{ALGORITHM} Credential={credential}, SignedHeaders={names},"
        f" Signature={signature}",
    }


def _derived_key(key: SigningKey, day: str) -> bytes:
    derived = f"AWS4{key.secret_key}".encode()
    # Bound to a day, a region and a service: a derived key that leaks is of little use.
    for text in (day, key.region, key.service, "aws4_request"):
        derived = hmac.digest(derived, text.encode(), "sha256")
    return derived

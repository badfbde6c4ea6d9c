"""Where the coordinator is, whom to trust there, and the token: found in the places where `muster` looks, too."""

from __future__ import annotations

import json
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from .errors import MusterError, UntrustedServer

_SCHEME = "spiffe://"
_MOST_BYTES = 1 << 20
# As identities lie in the folder of a run or of a coordinator, and of `muster up`.
_AUTHORITIES = ("identity/current/authority.pem", "identity/authority.pem", "store/identity/current/authority.pem",
                "store/identity/authority.pem")
_TOKENS = ("identity/admin.token", "store/identity/admin.token")


@dataclass(frozen=True)
class Trust:
    """An authority, and the one cluster for which it speaks; empty: it is from outside and names none."""

    authority: str
    cluster: str

    def context(self) -> ssl.SSLContext:
        """TLS 1.2 or later. Host names prove nothing: `check` looks at the name that counts."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=self.authority)
        return context

    def check(self, connection: ssl.SSLSocket) -> None:
        """Whether the coordinator of the cluster is there. Its certificate has been verified."""
        shown = connection.getpeercert() or {}
        uris = _uris(shown)
        wanted = f"{_SCHEME}{self.cluster}/coordinator"
        right = len(uris) == 1 and (uris[0] == wanted if self.cluster else _is_coordinator(uris[0]))
        if not right:
            named = ", ".join(uris) or "nobody"
            raise UntrustedServer(f"{named} is there, and not the coordinator of cluster {self.cluster or 'any'}")


def _uris(certificate: object) -> list[str]:
    names = certificate.get("subjectAltName", ()) if isinstance(certificate, dict) else ()
    return [str(value) for kind, value in names if kind == "URI"]


def _is_coordinator(uri: str) -> bool:
    parts = uri.removeprefix(_SCHEME).split("/")
    return uri.startswith(_SCHEME) and len(parts) == 2 and parts[0] != "" and parts[1] == "coordinator"


def trust_in(pem: str, called: str) -> Trust:
    """`called`: what an error calls the file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as why:
        raise MusterError(f"{called} holds no certificate of an authority (authority.pem): {why}") from why
    clusters = set()
    for certificate in context.get_ca_certs():
        uris = _uris(certificate)
        name = uris[0].removeprefix(_SCHEME) if len(uris) == 1 and uris[0].startswith(_SCHEME) else ""
        clusters.add("" if "/" in name else name)
    # Of one from outside, or of several, the name of the coordinator alone is looked at.
    return Trust(pem, clusters.pop() if len(clusters) == 1 else "")


def _read(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.read(_MOST_BYTES)


def _token_of(text: str, where: str) -> str:
    token = text.strip()
    if not token or not token.isascii() or not all(c.isprintable() and c != " " for c in token):
        raise MusterError(f"{where} holds no token, which is one word, as `muster token make` prints it")
    return token


def _token_in(path: Path) -> str:
    return _token_of(_read(path), str(path))


@dataclass(frozen=True)
class Place:
    """All that is needed to ask."""

    host: str
    port: int
    token: str | None
    trust: Trust


def find_place(url: str | None, token: str | None, ca: str | os.PathLike[str] | None,
               folder: str | os.PathLike[str] | None) -> Place:
    """What is given counts; the rest is found. Raises MusterError that says what is missing."""
    home = Path.home() / ".config" / "muster"
    trust, of_folder = _find_trust(ca, folder, home)
    host, port = _address(url, folder)
    if token is not None:
        token = _token_of(token, "token")
    else:
        token = _find_token(folder if of_folder else None, home if _may_show(trust, of_folder, home) else None)
    return Place(host, port, token, trust)


def _find_trust(ca: str | os.PathLike[str] | None, folder: str | os.PathLike[str] | None,
                home: Path) -> tuple[Trust, bool]:
    if ca is not None:
        return trust_in(_read_named("ca", Path(ca)), "ca"), False
    if named := os.environ.get("MUSTER_AUTHORITY"):
        return trust_in(_read_named("MUSTER_AUTHORITY", Path(named)), "MUSTER_AUTHORITY"), False
    for place in [Path(folder) / name for name in _AUTHORITIES] if folder is not None else []:
        if place.exists():
            return trust_in(_read(place), str(place)), True
    if (place := home / "authority.pem").exists():
        return trust_in(_read(place), str(place)), False
    raise MusterError("whom to trust is not known: give ca, the file authority.pem of the coordinator's identity, or "
                      "dir, the folder of the cluster on this machine; or set MUSTER_AUTHORITY")


def _read_named(called: str, path: Path) -> str:
    try:
        return _read(path)
    except OSError as why:
        raise MusterError(f"{called}: {why}") from why


def _may_show(trust: Trust, of_folder: bool, home: Path) -> bool:
    """Anybody may have made a folder of that name, so what it names alone does not get the token at home."""
    if not of_folder:
        return True
    try:
        return _read(home / "authority.pem") == trust.authority
    except OSError:
        return False


def _find_token(folder: str | os.PathLike[str] | None, home: Path | None) -> str | None:
    if named := os.environ.get("MUSTER_TOKEN_FILE"):
        try:
            return _token_in(Path(named))
        except OSError as why:
            raise MusterError(f"MUSTER_TOKEN_FILE: {why}") from why
    places = [Path(folder) / name for name in _TOKENS] if folder is not None else []
    if home is not None:
        places.append(home / "token")
    for place in places:
        try:
            return _token_in(place)
        except OSError:  # it is not there, or that of an admin and nobody else's business
            continue
    return None


def _address(url: str | None, folder: str | os.PathLike[str] | None) -> tuple[str, int]:
    if url is None and folder is not None:
        file = Path(folder) / "cluster.json"
        try:
            url = "https://" + str(json.loads(_read(file))["http"])
        except (OSError, ValueError, KeyError, TypeError) as why:
            raise MusterError(f"{file} does not say where the cluster is; does it run? `muster up` starts it") from why
    if url is None:
        raise MusterError("where the coordinator is is not known: give url, as in https://10.0.0.1:7080, or dir, the "
                          "folder of a cluster on this machine")
    if not url.startswith("https://"):
        raise MusterError(f"{url}: a coordinator is asked over https:// alone, as in https://10.0.0.1:7080")
    authority = url.removeprefix("https://").rstrip("/")
    host, colon, port = authority.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536 or "/" in host:
        raise MusterError(f"{url}: it must be https://HOST:PORT, as in https://10.0.0.1:7080")
    return host.strip("[]"), int(port)

"""A certificate authority of our own and the serving certificate it signs: when they are created and renewed.

Pure functions of time. Clients trust a bundle of authorities, the newest first. A new authority is added to the bundle
long before the old one expires, and signs nothing until every client has had time to load it; the old one stays in the
bundle until it expires. So a certificate in use is trusted at every moment.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFE: Final = timedelta(days=3 * 365)
AUTHORITY_LEFT: Final = timedelta(days=500)
"""Of an authority's life, when the next one is made: longer than a serving certificate that it may still sign."""
SERVING_LIFE: Final = timedelta(days=365)
SERVING_LEFT: Final = timedelta(days=120)
OVERLAP: Final = timedelta(hours=1)
"""How long an authority is in the bundle before it signs."""
SKEW: Final = timedelta(hours=1)
"""Certificates are dated back: the clocks that compare are not always the one that signs."""
AUTHORITY_CERTIFICATES: Final = "ca.crt"
AUTHORITY_KEY: Final = "ca.key"
SERVING_CERTIFICATE: Final = "tls.crt"
SERVING_KEY: Final = "tls.key"
_NAME: Final = "volcano-py admission"
Certificate = x509.Certificate
Key = ec.EllipticCurvePrivateKey


class CertificateError(ValueError):
    """What is stored cannot be used."""


@dataclass(frozen=True, slots=True)
class Material:
    """Everything that replicas share."""

    bundle: tuple[Certificate, ...]
    """Authorities to trust, the newest first."""
    authority_key: Key
    """Of the newest."""
    certificate: Certificate
    key: Key


def renewed(material: Material | None, hosts: Collection[str], now: datetime) -> Material:
    """What should be in force: the same object if nothing is due. ``hosts``: the names and addresses to serve."""
    if material is None or material.bundle[0].not_valid_after_utc <= now:
        return _fresh(hosts, now)
    bundle = tuple(authority for authority in material.bundle if authority.not_valid_after_utc > now)
    if bundle != material.bundle:
        material = replace(material, bundle=bundle)
    if material.bundle[0].not_valid_after_utc - now < AUTHORITY_LEFT:
        key = ec.generate_private_key(ec.SECP256R1())
        material = replace(material, bundle=(_authority(key, now), *material.bundle), authority_key=key)
    usable = _usable(material, now)
    strange = not hosts_of(material.certificate).issuperset(hosts)
    if strange or not usable or _serving_is_due(material, now):
        # Replicas of another release may ask for other hosts: until the next renewal it is good for both.
        wanted = {*hosts, *hosts_of(material.certificate)} if strange and usable else hosts
        key = ec.generate_private_key(ec.SECP256R1())
        material = replace(material, key=key, certificate=_serving(key, material, wanted, now))
    return material


def _fresh(hosts: Collection[str], now: datetime) -> Material:
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key, now)
    material = Material((authority,), authority_key, authority, key)
    return replace(material, certificate=_serving(key, material, hosts, now))


def _usable(material: Material, now: datetime) -> bool:
    """Whether clients that know the bundle trust the serving certificate."""
    trusted = any(_signed(authority, material.certificate) for authority in material.bundle)
    return trusted and material.certificate.not_valid_after_utc > now


def _serving_is_due(material: Material, now: datetime) -> bool:
    """The end is near, and clients know the authority that is to sign the next one."""
    known_since = material.bundle[0].not_valid_before_utc + SKEW
    return material.certificate.not_valid_after_utc - now < SERVING_LEFT and now - known_since >= OVERLAP


def hosts_of(certificate: Certificate) -> set[str]:
    """The names and addresses that a certificate is good for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    addresses = names.get_values_for_type(x509.IPAddress)
    return {*names.get_values_for_type(x509.DNSName), *map(str, addresses)}


def _signed(authority: Certificate, certificate: Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


# --- making -----------------------------------------------------------------------------------------------------------
def _authority(key: Key, now: datetime) -> Certificate:
    # Two authorities of one name would make clients try the wrong one's key; the date distinguishes them.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{_NAME} {now:%Y-%m-%dT%H:%M:%S}")])
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        _builder(key, name, name, key.public_key(), now, now + AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )


def _serving(key: Key, material: Material, hosts: Collection[str], now: datetime) -> Certificate:
    authority = material.bundle[0]
    until = min(now + SERVING_LIFE, authority.not_valid_after_utc)
    common_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    alternatives = x509.SubjectAlternativeName([_general_name(host) for host in sorted(hosts)])
    return (
        _builder(key, common_name, authority.subject, material.authority_key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(alternatives, critical=False)
        .sign(material.authority_key, hashes.SHA256())
    )


def _builder(
    key: Key, subject: x509.Name, issuer: x509.Name, issuer_key: ec.EllipticCurvePublicKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


# --- PEM --------------------------------------------------------------------------------------------------------------
def to_pem(material: Material) -> dict[str, bytes]:
    """As a Secret holds it."""
    return {
        AUTHORITY_CERTIFICATES: b"".join(map(_certificate_pem, material.bundle)),
        AUTHORITY_KEY: _key_pem(material.authority_key),
        SERVING_CERTIFICATE: _certificate_pem(material.certificate),
        SERVING_KEY: _key_pem(material.key),
    }


def from_pem(data: Mapping[str, bytes]) -> Material:
    """Raises CertificateError."""
    try:
        material = Material(
            bundle=tuple(x509.load_pem_x509_certificates(data[AUTHORITY_CERTIFICATES])),
            authority_key=_key(data[AUTHORITY_KEY]),
            certificate=x509.load_pem_x509_certificate(data[SERVING_CERTIFICATE]),
            key=_key(data[SERVING_KEY]),
        )
        pairs = ((material.bundle[0], material.authority_key), (material.certificate, material.key))
        fitting = all(certificate.public_key() == key.public_key() for certificate, key in pairs)
    except KeyError as error:
        raise CertificateError(f"there is no {error.args[0]}") from None
    except (ValueError, TypeError, x509.ExtensionNotFound) as error:
        raise CertificateError(str(error)) from None
    if not fitting:
        raise CertificateError("a key does not belong to its certificate")
    return material


def _key(pem: bytes) -> Key:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not an elliptic curve key")
    return key


def _certificate_pem(certificate: Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )

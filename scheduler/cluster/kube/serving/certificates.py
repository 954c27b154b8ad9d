"""Creation and renewal of a private certificate authority and of the serving certificate that it signs.

Pure functions of time. Clients trust a bundle of authorities, the newest first. A new authority is added to the bundle
long before the old one expires, and signs nothing until all clients have had time to load it. The old one stays in the
bundle until it expires. So clients trust the certificate in use at any time.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec.structs import replace

AUTHORITY_LIFETIME: Final = timedelta(days=3 * 365)
AUTHORITY_RENEW_BEFORE: Final = timedelta(days=500)
"""The time before an authority expires when the next one is created; longer than the lifetime of a serving certificate
that it may still sign."""
SERVING_LIFETIME: Final = timedelta(days=365)
SERVING_RENEW_BEFORE: Final = timedelta(days=120)
SIGNING_DELAY: Final = timedelta(hours=1)
"""The time that an authority is in the bundle before it signs."""
CLOCK_SKEW: Final = timedelta(hours=1)
"""Certificates become valid this long before they are created, since clocks differ."""
AUTHORITY_CERTIFICATES: Final = "ca.crt"
AUTHORITY_KEY: Final = "ca.key"
SERVING_CERTIFICATE: Final = "tls.crt"
SERVING_KEY: Final = "tls.key"
_NAME: Final = "volcano-py"
Certificate = x509.Certificate
Key = ec.EllipticCurvePrivateKey


class CertificateError(ValueError):
    """A stored certificate or key is invalid."""


class KeyMaterial(msgspec.Struct, frozen=True):
    """The certificates and keys that replicas share."""

    bundle: tuple[Certificate, ...]
    """CA certificates to trust, the newest first."""
    authority_key: Key
    """The key of the newest authority."""
    certificate: Certificate
    key: Key


def renewed(material: KeyMaterial | None, hosts: Collection[str], now: datetime) -> KeyMaterial:
    """Renews the certificates that are due; returns the same object if nothing is. ``hosts``: the host names and
    addresses to serve."""
    if material is None or material.bundle[0].not_valid_after_utc <= now:
        return _new_material(hosts, now)
    bundle = tuple(authority for authority in material.bundle if authority.not_valid_after_utc > now)
    if bundle != material.bundle:
        material = replace(material, bundle=bundle)
    if material.bundle[0].not_valid_after_utc - now < AUTHORITY_RENEW_BEFORE:
        key = ec.generate_private_key(ec.SECP256R1())
        material = replace(material, bundle=(_authority(key, now), *material.bundle), authority_key=key)
    trusted = _is_trusted(material, now)
    hosts_missing = not hosts_of(material.certificate).issuperset(hosts)
    if hosts_missing or not trusted or _serving_is_due(material, now):
        # Replicas of another release may need other hosts: until the next renewal the certificate has both.
        all_hosts = {*hosts, *hosts_of(material.certificate)} if hosts_missing and trusted else hosts
        key = ec.generate_private_key(ec.SECP256R1())
        material = replace(material, key=key, certificate=_serving(key, material, all_hosts, now))
    return material


def _new_material(hosts: Collection[str], now: datetime) -> KeyMaterial:
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key, now)
    material = KeyMaterial((authority,), authority_key, authority, key)
    return replace(material, certificate=_serving(key, material, hosts, now))


def _is_trusted(material: KeyMaterial, now: datetime) -> bool:
    """Whether clients with the bundle trust the serving certificate."""
    signed = any(_is_signed_by(authority, material.certificate) for authority in material.bundle)
    return signed and material.certificate.not_valid_after_utc > now


def _serving_is_due(material: KeyMaterial, now: datetime) -> bool:
    """Whether the certificate expires soon and clients have the authority that signs the next one."""
    known_since = material.bundle[0].not_valid_before_utc + CLOCK_SKEW
    return material.certificate.not_valid_after_utc - now < SERVING_RENEW_BEFORE and now - known_since >= SIGNING_DELAY


def hosts_of(certificate: Certificate) -> set[str]:
    """The host names and addresses that a certificate is valid for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    addresses = names.get_values_for_type(x509.IPAddress)
    return {*names.get_values_for_type(x509.DNSName), *map(str, addresses)}


def _is_signed_by(authority: Certificate, certificate: Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


# --- creation ---------------------------------------------------------------------------------------------------------
def _authority(key: Key, now: datetime) -> Certificate:
    # If two authorities had the same name, clients would try the wrong key; the date distinguishes them.
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
        _builder(key, name, name, key.public_key(), now, now + AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )


def _serving(key: Key, material: KeyMaterial, hosts: Collection[str], now: datetime) -> Certificate:
    authority = material.bundle[0]
    until = min(now + SERVING_LIFETIME, authority.not_valid_after_utc)
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
        .not_valid_before(now - CLOCK_SKEW)
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
def to_pem(material: KeyMaterial) -> dict[str, bytes]:
    """Encodes the material as the data of a Secret."""
    return {
        AUTHORITY_CERTIFICATES: b"".join(map(_certificate_pem, material.bundle)),
        AUTHORITY_KEY: _key_pem(material.authority_key),
        SERVING_CERTIFICATE: _certificate_pem(material.certificate),
        SERVING_KEY: _key_pem(material.key),
    }


def from_pem(data: Mapping[str, bytes]) -> KeyMaterial:
    """Decodes the data of a Secret. Raises CertificateError."""
    try:
        material = KeyMaterial(
            bundle=tuple(x509.load_pem_x509_certificates(data[AUTHORITY_CERTIFICATES])),
            authority_key=_key(data[AUTHORITY_KEY]),
            certificate=x509.load_pem_x509_certificate(data[SERVING_CERTIFICATE]),
            key=_key(data[SERVING_KEY]),
        )
        pairs = ((material.bundle[0], material.authority_key), (material.certificate, material.key))
        matching = all(certificate.public_key() == key.public_key() for certificate, key in pairs)
    except KeyError as error:
        raise CertificateError(f"there is no {error.args[0]}") from None
    except (ValueError, TypeError, x509.ExtensionNotFound) as error:
        raise CertificateError(str(error)) from None
    if not matching:
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

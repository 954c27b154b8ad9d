"""Renewal of certificates: the certificate in use is trusted at any time."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from scheduler.cluster.kube.serving.certificates import (
    AUTHORITY_LIFETIME,
    SERVING_LIFETIME,
    SERVING_RENEW_BEFORE,
    SIGNING_DELAY,
    CertificateError,
    KeyMaterial,
    from_pem,
    hosts_of,
    renewed,
    to_pem,
)

HOSTS = ("admission.volcano-system.svc", "127.0.0.1")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def trusted(certificate: x509.Certificate, bundle: tuple[x509.Certificate, ...], now: datetime) -> bool:
    """Whether a client with this CA bundle trusts the certificate."""
    if not certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc:
        return False
    for authority in bundle:
        try:
            certificate.verify_directly_issued_by(authority)
        except ValueError:
            continue
        except Exception:  # signed by another authority
            continue
        return authority.not_valid_before_utc <= now < authority.not_valid_after_utc
    return False


def test_the_first_certificate_is_valid_for_the_hosts_and_signed_by_the_authority() -> None:
    material = renewed(None, HOSTS, BEGIN)
    assert hosts_of(material.certificate) == set(HOSTS)
    assert len(material.bundle) == 1
    assert trusted(material.certificate, material.bundle, BEGIN)
    assert material.certificate.not_valid_after_utc == BEGIN + SERVING_LIFETIME
    assert material.bundle[0].not_valid_after_utc == BEGIN + AUTHORITY_LIFETIME


def test_nothing_is_renewed_before_it_is_due() -> None:
    material = renewed(None, HOSTS, BEGIN)
    assert renewed(material, HOSTS, BEGIN + SERVING_LIFETIME - SERVING_RENEW_BEFORE - DAY) is material


def test_a_serving_certificate_is_renewed_long_before_it_expires_by_the_same_authority() -> None:
    material = renewed(None, HOSTS, BEGIN)
    later = BEGIN + SERVING_LIFETIME - SERVING_RENEW_BEFORE + DAY
    after = renewed(material, HOSTS, later)
    assert after.bundle == material.bundle
    assert after.certificate.not_valid_after_utc == later + SERVING_LIFETIME


def test_a_new_host_gets_a_certificate_at_once_that_stays_valid_for_the_old_host() -> None:
    material = renewed(None, HOSTS, BEGIN)
    after = renewed(material, ("other.svc",), BEGIN)
    assert hosts_of(after.certificate) == {*HOSTS, "other.svc"}
    assert after.bundle == material.bundle
    assert renewed(after, HOSTS, BEGIN) is after  # a replica of an older release does not undo it
    later = BEGIN + SERVING_LIFETIME - SERVING_RENEW_BEFORE + DAY
    assert hosts_of(renewed(after, ("other.svc",), later).certificate) == {"other.svc"}


def test_for_ten_years_clients_trust_the_served_certificate_and_get_authorities_before_they_sign() -> None:
    material, now = renewed(None, HOSTS, BEGIN), BEGIN
    client = material.bundle
    bundles, certificates, longest = {material.bundle}, {material.certificate}, 1
    while now < BEGIN + 10 * 365 * DAY:
        now += 5 * DAY
        for moment in (now, now + SIGNING_DELAY / 2):
            material = renewed(material, HOSTS, moment)
            assert trusted(material.certificate, client, moment)  # the client does not have the newest bundle yet
        client = material.bundle
        bundles.add(material.bundle)
        certificates.add(material.certificate)
        longest = max(longest, len(material.bundle))
    assert longest == 2
    assert len(bundles) > 6
    assert 12 < len(certificates) < 25


def test_expired_certificates_and_authorities_are_replaced() -> None:
    material = renewed(None, HOSTS, BEGIN)
    late = BEGIN + AUTHORITY_LIFETIME + DAY
    after = renewed(material, HOSTS, late)
    assert not set(after.bundle) & set(material.bundle)
    assert trusted(after.certificate, after.bundle, late)
    ended = BEGIN + SERVING_LIFETIME + DAY
    assert trusted(renewed(material, HOSTS, ended).certificate, material.bundle, ended)


def test_a_written_bundle_can_be_read_again() -> None:
    material = renewed(None, HOSTS, BEGIN)
    assert to_pem(from_pem(to_pem(material))) == to_pem(material)


def two() -> tuple[KeyMaterial, KeyMaterial]:
    return renewed(None, HOSTS, BEGIN), renewed(None, HOSTS, BEGIN)


@pytest.mark.parametrize("key", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
def test_missing_broken_or_unrelated_certificates_are_rejected(key: str) -> None:
    one, other = (to_pem(material) for material in two())
    with pytest.raises(CertificateError, match=f"there is no {key}"):
        from_pem({name: value for name, value in one.items() if name != key})
    for value in (b"", b"junk", one[key][:-60]):
        with pytest.raises(CertificateError):
            from_pem({**one, key: value})
    with pytest.raises(CertificateError, match="does not belong"):
        from_pem({**one, key: other[key]})

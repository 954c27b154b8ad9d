"""Certificates over the years: there is never a moment in which one in use is not trusted."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from scheduler.cluster.kube.admission.certificates import (
    AUTHORITY_LIFE,
    OVERLAP,
    SERVING_LEFT,
    SERVING_LIFE,
    CertificateError,
    Material,
    from_pem,
    hosts_of,
    renewed,
    to_pem,
)

HOSTS = ("admission.volcano-system.svc", "127.0.0.1")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def trusted(certificate: x509.Certificate, bundle: tuple[x509.Certificate, ...], now: datetime) -> bool:
    """What a client with this bundle thinks of a certificate."""
    if not certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc:
        return False
    for authority in bundle:
        try:
            certificate.verify_directly_issued_by(authority)
        except ValueError:
            continue
        except Exception:  # a signature of another's
            continue
        return authority.not_valid_before_utc <= now < authority.not_valid_after_utc
    return False


def test_the_first_certificate_is_good_for_the_hosts_and_signed_by_the_authority() -> None:
    material = renewed(None, HOSTS, BEGIN)
    assert hosts_of(material.certificate) == set(HOSTS)
    assert len(material.bundle) == 1
    assert trusted(material.certificate, material.bundle, BEGIN)
    assert material.certificate.not_valid_after_utc == BEGIN + SERVING_LIFE
    assert material.bundle[0].not_valid_after_utc == BEGIN + AUTHORITY_LIFE


def test_nothing_is_made_anew_before_it_is_due() -> None:
    material = renewed(None, HOSTS, BEGIN)
    assert renewed(material, HOSTS, BEGIN + SERVING_LIFE - SERVING_LEFT - DAY) is material


def test_a_serving_certificate_is_made_anew_long_before_it_ends_by_the_same_authority() -> None:
    material = renewed(None, HOSTS, BEGIN)
    later = BEGIN + SERVING_LIFE - SERVING_LEFT + DAY
    after = renewed(material, HOSTS, later)
    assert after.bundle == material.bundle
    assert after.certificate.not_valid_after_utc == later + SERVING_LIFE


def test_another_host_needs_another_certificate_at_once_which_is_good_for_the_old_one_until_it_is_renewed() -> None:
    material = renewed(None, HOSTS, BEGIN)
    after = renewed(material, ("other.svc",), BEGIN)
    assert hosts_of(after.certificate) == {*HOSTS, "other.svc"}
    assert after.bundle == material.bundle
    assert renewed(after, HOSTS, BEGIN) is after  # a replica of the release before does not take it back
    later = BEGIN + SERVING_LIFE - SERVING_LEFT + DAY
    assert hosts_of(renewed(after, ("other.svc",), later).certificate) == {"other.svc"}


def test_through_ten_years_clients_always_trust_what_is_served_and_learn_of_authorities_before_they_sign() -> None:
    material, now = renewed(None, HOSTS, BEGIN), BEGIN
    client = material.bundle
    bundles, certificates, longest = {material.bundle}, {material.certificate}, 1
    while now < BEGIN + 10 * 365 * DAY:
        now += 5 * DAY
        for moment in (now, now + OVERLAP / 2):
            material = renewed(material, HOSTS, moment)
            assert trusted(material.certificate, client, moment)  # the client has not been told of what came just now
        client = material.bundle
        bundles.add(material.bundle)
        certificates.add(material.certificate)
        longest = max(longest, len(material.bundle))
    assert longest == 2
    assert len(bundles) > 6
    assert 12 < len(certificates) < 25


def test_after_years_without_us_everything_is_made_anew() -> None:
    material = renewed(None, HOSTS, BEGIN)
    late = BEGIN + AUTHORITY_LIFE + DAY
    after = renewed(material, HOSTS, late)
    assert not set(after.bundle) & set(material.bundle)
    assert trusted(after.certificate, after.bundle, late)
    ended = BEGIN + SERVING_LIFE + DAY
    assert trusted(renewed(material, HOSTS, ended).certificate, material.bundle, ended)


def test_what_is_written_is_read_again() -> None:
    material = renewed(None, HOSTS, BEGIN)
    assert to_pem(from_pem(to_pem(material))) == to_pem(material)


def two() -> tuple[Material, Material]:
    return renewed(None, HOSTS, BEGIN), renewed(None, HOSTS, BEGIN)


@pytest.mark.parametrize("key", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
def test_what_is_missing_broken_or_anothers_cannot_be_used(key: str) -> None:
    one, other = (to_pem(material) for material in two())
    with pytest.raises(CertificateError, match=f"there is no {key}"):
        from_pem({name: value for name, value in one.items() if name != key})
    for value in (b"", b"junk", one[key][:-60]):
        with pytest.raises(CertificateError):
            from_pem({**one, key: value})
    with pytest.raises(CertificateError, match="does not belong"):
        from_pem({**one, key: other[key]})

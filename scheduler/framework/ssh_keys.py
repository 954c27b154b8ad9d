"""SSH keys that users give to the job plugin ``ssh``: admission checks them, controllers derive their public keys."""

from scheduler.api.job_plugins import ArgumentError


def public_key_of(private_key: str) -> str:
    """The line of authorized_keys for a private key. Raises ArgumentError, whose message never contains the key."""
    # Imported here, because it takes long and few jobs bring a key of their own.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_pem_private_key,
        load_ssh_private_key,
    )

    text = private_key.encode()
    try:
        load = load_ssh_private_key if b"BEGIN OPENSSH" in text else load_pem_private_key
        # Without the validation of RSA keys, which takes seconds for a long modulus: the job's own Pods use the key.
        public = (
            load(text, password=None, unsafe_skip_rsa_key_validation=True)
            .public_key()
            .public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        )
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ArgumentError(
            "argument --ssh-private-key must be a private key in PEM without a password, or come with --ssh-public-key"
        ) from error
    return public.decode() + "\n"

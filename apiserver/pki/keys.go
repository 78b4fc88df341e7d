package pki

import (
	"crypto"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"k8s.io/client-go/util/keyutil"
)

// OpenKey reads the private key of a PEM file. If the file does not exist, it creates one with an
// ECDSA P-256 key, durably.
func OpenKey(file string) (crypto.Signer, error) {
	key, err := ReadKey(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	pem, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	if err := create(content{file, pem, 0o600}); err != nil {
		return nil, fmt.Errorf("write key: %w", err)
	}
	return ReadKey(file)
}

// ReadKey reads the private key of a PEM file.
func ReadKey(file string) (crypto.Signer, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	key, err := keyutil.ParsePrivateKeyPEM(pem)
	if err != nil {
		return nil, fmt.Errorf("read key %s: %w", file, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("read key %s: a %T can't sign", file, key)
	}
	return signer, nil
}

// ReadPublicKeys reads the public keys of a PEM file; certificates and private keys count as their
// public keys.
func ReadPublicKeys(file string) ([]crypto.PublicKey, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read public keys: %w", err)
	}
	parsed, err := keyutil.ParsePublicKeysPEM(pem)
	if err != nil {
		return nil, fmt.Errorf("read public keys %s: %w", file, err)
	}
	keys := make([]crypto.PublicKey, len(parsed))
	for i, key := range parsed {
		keys[i] = key
	}
	return keys, nil
}

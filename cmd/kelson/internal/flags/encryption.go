package flags

import (
	"errors"
	"log/slog"

	"github.com/spf13/pflag"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/encrypted"
	"kelson.dev/apiserver/store/etcd"
)

// Encryption is the flag of encryption at rest, with kube-apiserver's name.
type Encryption struct{ File string }

// AddFlags registers the flag.
func (o *Encryption) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.File, "encryption-provider-config", "",
		"EncryptionConfiguration file: which resources to encrypt in the data directory or in etcd, and how; reloaded when it changes")
}

// Check returns an error if encryption is requested for state that is not persistent.
func (o *Encryption) Check(persistent bool) error {
	if o.File != "" && !persistent {
		return errors.New("--encryption-provider-config needs persistent state: remove it or --in-memory")
	}
	return nil
}

// Wrap returns a backend that encrypts the values that it writes to backend. Without a
// configuration, the returned backend reports encrypted values as such instead of as damaged ones.
func (o *Encryption) Wrap(backend store.Backend, log *slog.Logger) (store.Backend, error) {
	return encrypted.Open(backend, encrypted.Config{File: o.File, Log: log})
}

// WrapShared does the same as Wrap for a log in etcd.
func (o *Encryption) WrapShared(shared *etcd.Log, log *slog.Logger) (store.Shared, error) {
	return encrypted.OpenShared(shared, encrypted.Config{File: o.File, Log: log}, shared.Path)
}

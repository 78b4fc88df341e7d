package main

import (
	"errors"
	"log/slog"

	"github.com/spf13/pflag"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/encrypted"
	shared "kelson.dev/apiserver/store/etcd"
)

// encryptionFlags say how the state is encrypted where it is kept, by kube-apiserver's name.
type encryptionFlags struct{ file string }

func (o *encryptionFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.file, "encryption-provider-config", "", "EncryptionConfiguration: which resources are encrypted in the data directory or in etcd, and how; read again when it changes")
}

// check refuses what would leave values plain that were meant to be encrypted.
func (o *encryptionFlags) check(kept bool) error {
	if o.file != "" && !kept {
		return errors.New("--encryption-provider-config is for state that is kept, which --in-memory does not")
	}
	return nil
}

// around encrypts what a backend keeps. Without a configuration it sees to it that encrypted values are not taken for damaged ones.
func (o *encryptionFlags) around(backend store.Backend, log *slog.Logger) (store.Backend, error) {
	return encrypted.Open(backend, encrypted.Config{File: o.file, Log: log})
}

// aroundShared does the same for what is kept in etcd.
func (o *encryptionFlags) aroundShared(log *shared.Log, to *slog.Logger) (store.Shared, error) {
	return encrypted.OpenShared(log, encrypted.Config{File: o.file, Log: to}, log.Path)
}

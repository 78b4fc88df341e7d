package main

import (
	"errors"
	"log/slog"

	"github.com/spf13/pflag"

	"kelson.dev/server/store"
	"kelson.dev/server/store/encrypted"
)

// encryptionFlags say how the state is encrypted on disk, by kube-apiserver's name.
type encryptionFlags struct{ file string }

func (o *encryptionFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.file, "encryption-provider-config", "", "EncryptionConfiguration: which resources are encrypted in the data directory, and how; read again when it changes")
}

// check refuses what would leave values plain that were meant to be encrypted.
func (o *encryptionFlags) check(onDisk bool) error {
	if o.file != "" && !onDisk {
		return errors.New("--encryption-provider-config is for state in a data directory")
	}
	return nil
}

// around encrypts what a backend keeps. Without a configuration it sees to it that encrypted values are not taken for damaged ones.
func (o *encryptionFlags) around(backend store.Backend, log *slog.Logger) (store.Backend, error) {
	return encrypted.Open(backend, encrypted.Config{File: o.file, Log: log})
}

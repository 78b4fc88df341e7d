package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"kelson.dev/apiserver/rest"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/disk"
	"kelson.dev/apiserver/store/encrypted"
	"kelson.dev/apiserver/store/etcd"
)

// OpenStore opens the place where a server keeps its objects. The server closes the store.
type OpenStore func(ctx context.Context) (store.Config, error)

// Storage selects where the server keeps its objects; the default is [Memory]. Kinds with a
// [Source] are not stored there.
func Storage(open OpenStore) Part { return partFunc(func(p *plan) { p.open = open }) }

// Memory keeps objects in memory. They are lost when the server ends.
func Memory() OpenStore {
	return func(context.Context) (store.Config, error) { return store.Config{}, nil }
}

// Disk keeps objects in a directory, which one process can use at a time; see package store/disk.
func Disk(dir string) OpenStore {
	return func(context.Context) (store.Config, error) {
		backend, err := disk.Open(dir)
		return store.Config{Backend: backend}, err
	}
}

// Etcd keeps objects in an etcd cluster, which several servers can share; see package store/etcd.
func Etcd(cfg etcd.Config) OpenStore {
	return func(ctx context.Context) (store.Config, error) {
		log, err := etcd.Open(ctx, cfg)
		if err != nil {
			return store.Config{}, err
		}
		return store.Config{Shared: log}, nil
	}
}

// Backend keeps objects in a backend of the caller; package store/storetest tests such backends.
func Backend(open func() (store.Backend, error)) OpenStore {
	return func(context.Context) (store.Config, error) {
		backend, err := open()
		return store.Config{Backend: backend}, err
	}
}

// Encrypted encrypts the values of another storage as an EncryptionConfiguration file specifies.
func Encrypted(file string, open OpenStore) OpenStore {
	return func(ctx context.Context) (store.Config, error) {
		cfg, err := open(ctx)
		switch {
		case err != nil:
		case cfg.Shared != nil:
			log, ok := cfg.Shared.(*etcd.Log)
			if !ok {
				return cfg, fmt.Errorf("encrypt %T: only etcd is supported", cfg.Shared)
			}
			cfg.Shared, err = encrypted.OpenShared(log, encrypted.Config{File: file}, log.Path)
		case cfg.Backend != nil:
			cfg.Backend, err = encrypted.Open(cfg.Backend, encrypted.Config{File: file})
		default:
			err = fmt.Errorf("encrypt with %s: objects in memory are not encrypted", file)
		}
		return cfg, err
	}
}

// MigrateStorage makes a new server store again the objects that are stored in an older form, such
// as in another version than the current storage version, or without current defaults. Without it,
// the server converts such objects when it reads them, and stores them in the new form with their
// next write.
//
// The server serves requests meanwhile. Watches receive the event Modified for each stored object.
func MigrateStorage() Part { return migrateStorage(slog.New(slog.DiscardHandler)) }

func migrateStorage(log *slog.Logger) Part {
	return Run(func(ctx context.Context, s *Server) error {
		var errs []error
		for _, res := range s.registry.Current().All() {
			if s.mirrors[res.GroupResource()] != nil {
				continue
			}
			stored, err := rest.Rewrite(ctx, s.store, res, false)
			if err != nil && ctx.Err() == nil {
				log.Error("migrate storage", "resource", res.GroupResource(), "version", res.StorageVersion,
					"stored", stored, "err", err)
				errs = append(errs, err)
			}
			if stored > 0 {
				log.Info("migrated storage", "resource", res.GroupResource(), "version", res.StorageVersion,
					"stored", stored)
			}
		}
		return errors.Join(errs...)
	})
}

// Package encrypted encrypts the values in a [store.Backend] according to a Kubernetes
// EncryptionConfiguration.
//
// The first provider of a resource encrypts everything that the backend stores. Stored values may
// be encrypted by any of the providers. Objects in memory are not encrypted. The providers, their
// formats (k8s:enc:aescbc:v1:key1:…) and the rules of the file, including wildcards, are
// Kubernetes' own code. A value is authenticated together with the key of its object, so it can't
// be substituted for another one.
//
//	store ── plain ──▶ Backend ── encrypted by the first provider ──▶ disk
//	store ◀─ plain ─── Backend ◀─ encrypted by any of them, or plain ─ disk
//
// If no provider can decrypt a value, Load fails. Nothing is lost: the state can be opened with the
// right keys. After a change of the keys, the next write starts a checkpoint (unless one is
// running), which encrypts the whole state with the new key. The former key is needed until that is
// complete.
//
//	backend, err := disk.Open(dir)
//	backend, err = encrypted.Open(backend, encrypted.Config{File: "encryption.yaml"})
//	s, err := store.Open(store.Config{Backend: backend})
//
// [OpenShared] does the same for a log that several control planes share.
package encrypted

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"

	"kelson.dev/apiserver/internal/filewatch"
	"kelson.dev/apiserver/store"
)

// Config configures the encryption.
type Config struct {
	// File is the name of an EncryptionConfiguration. It is read again when it changes. "" means
	// that values are not encrypted; encrypted values then cause an error.
	File string
	// Log receives errors about a changed file that is invalid; nil discards them.
	Log *slog.Logger
}

// source provides the current providers.
type source struct {
	file *filewatch.File[*providers] // nil: no encryption
	end  context.CancelFunc
}

// Backend encrypts the values of another Backend.
type Backend struct {
	*source
	inner store.Backend

	used  *providers  // providers of the last Append; accessed only by the committer
	stale atomic.Bool // some stored value is not encrypted by the first provider
}

// Stats implements [store.Measured] with the statistics of the inner backend.
func (b *Backend) Stats() store.BackendStats { return statsOf(b.inner) }

func statsOf(inner any) store.BackendStats {
	if m, ok := inner.(store.Measured); ok {
		return m.Stats()
	}
	return store.BackendStats{}
}

// providers are the transformers of one version of the file.
type providers struct {
	encryptionconfig.StaticTransformers
	path func(store.Key) string // the additional data that is authenticated with a value
}

// prefix is the prefix of every encrypted value.
const prefix = "k8s:enc:"

// Open adds encryption to a backend. It takes ownership of inner, even if it fails.
func Open(inner store.Backend, cfg Config) (store.Backend, error) {
	src, err := open(cfg, registryPath)
	if err != nil {
		inner.Close()
		return nil, err
	}
	return &Backend{inner: inner, source: src}, nil
}

func open(cfg Config, path func(store.Key) string) (*source, error) {
	ctx, end := context.WithCancel(context.Background())
	src := &source{end: end}
	if cfg.File == "" {
		return src, nil
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	var err error
	src.file, err = filewatch.Open(cfg.File, func([]byte) (*providers, error) {
		loaded, err := encryptionconfig.LoadEncryptionConfig(ctx, cfg.File, false, "")
		if err != nil {
			return nil, err
		}
		return &providers{loaded.Transformers, path}, nil
	}, func(err error) {
		cfg.Log.Error("reload of encryption configuration failed; keeping the previous one", "err", err)
	})
	if err != nil {
		end()
		return nil, fmt.Errorf("--encryption-provider-config: %w", err)
	}
	return src, nil
}

// current returns the current providers; nil if values are not encrypted.
func (s *source) current() *providers {
	if s.file == nil {
		return nil
	}
	return s.file.Get()
}

// decrypt decrypts a record in place. stale reports that the value should be encrypted again with
// the current key.
func (p *providers) decrypt(r *store.Record) (stale bool, err error) {
	if p == nil {
		if bytes.HasPrefix(r.Data, []byte(prefix)) {
			return false, fmt.Errorf("%s %s/%s is encrypted: pass --encryption-provider-config", r.Key.Resource,
				r.Key.Namespace, r.Key.Name)
		}
		return false, nil
	}
	data, stale, err := p.transformer(r.Key).TransformFromStorage(context.Background(), r.Data,
		value.DefaultContext(p.path(r.Key)))
	if err != nil {
		return false, fmt.Errorf("decrypt %s %s/%s (was its key removed from the encryption configuration?): %w",
			r.Key.Resource, r.Key.Namespace, r.Key.Name, err)
	}
	r.Data = data
	return stale, nil
}

// encrypt returns the record to store.
func (p *providers) encrypt(r store.Record) (store.Record, error) {
	if p == nil || r.Data == nil {
		return r, nil
	}
	data, err := p.transformer(r.Key).TransformToStorage(context.Background(), r.Data,
		value.DefaultContext(p.path(r.Key)))
	if err != nil {
		return r, fmt.Errorf("encrypt %s %s/%s: %w", r.Key.Resource, r.Key.Namespace, r.Key.Name, err)
	}
	r.Data = data
	return r, nil
}

func (p *providers) transformer(key store.Key) value.Transformer {
	return p.TransformerForResource(schema.ParseGroupResource(key.Resource))
}

// registryPath returns the key of an object for authentication, in the form of kube-apiserver's
// etcd keys.
func registryPath(key store.Key) string {
	return "/registry/" + key.Resource + "/" + key.Namespace + "/" + key.Name
}

// Load implements [store.Backend].
func (b *Backend) Load(each func(store.Record) error) (uint64, error) {
	now := b.current()
	b.used = now
	return b.inner.Load(func(r store.Record) error {
		stale, err := now.decrypt(&r)
		if err != nil {
			return err
		}
		if stale {
			b.stale.Store(true)
		}
		return each(r)
	})
}

// Append implements [store.Backend].
func (b *Backend) Append(records []store.Record) error {
	now := b.current()
	if now != b.used {
		b.used = now
		b.stale.Store(true)
	}
	if now == nil {
		return b.inner.Append(records)
	}
	sealed := make([]store.Record, len(records))
	for i, r := range records {
		var err error
		if sealed[i], err = now.encrypt(r); err != nil {
			return fmt.Errorf("%w: %w", store.ErrNotWritten, err)
		}
	}
	return b.inner.Append(sealed)
}

// Recover implements [store.Recoverer] if the inner backend does.
func (b *Backend) Recover() error {
	if r, ok := b.inner.(store.Recoverer); ok {
		return r.Recover()
	}
	return nil
}

// rewriter is a backend that can start a checkpoint on request.
type rewriter interface{ WantCheckpoint() }

// Checkpoint implements [store.Backend].
func (b *Backend) Checkpoint() func(context.Context, iter.Seq[store.Record]) error {
	stale := b.stale.Load()
	if r, ok := b.inner.(rewriter); ok && stale {
		r.WantCheckpoint()
	}
	write := b.inner.Checkpoint()
	if write == nil {
		return nil
	}
	now := b.used
	b.stale.Store(false)
	return func(ctx context.Context, records iter.Seq[store.Record]) (err error) {
		// If a value can't be encrypted, write must fail. Ending the sequence early would make the
		// state look complete, so the sequence panics.
		defer func() {
			if p := recover(); p != nil {
				unwritable, ok := p.(cantEncrypt)
				if !ok {
					panic(p)
				}
				err = unwritable.error
			}
			if err != nil && stale {
				b.stale.Store(true)
			}
		}()
		return write(ctx, func(yield func(store.Record) bool) {
			for r := range records {
				sealed, err := now.encrypt(r)
				if err != nil {
					panic(cantEncrypt{err})
				}
				if !yield(sealed) {
					return
				}
			}
		})
	}
}

// cantEncrypt carries an encryption error through a backend as a panic.
type cantEncrypt struct{ error }

// Close implements [store.Backend].
func (b *Backend) Close() error {
	b.end()
	return b.inner.Close()
}

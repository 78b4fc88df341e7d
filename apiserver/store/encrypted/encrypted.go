// Package encrypted keeps values encrypted in a [store.Backend], as an EncryptionConfiguration of Kubernetes says.
//
// Everything that a backend is given to keep is encrypted by the first provider of its resource; what it gives back may have been
// encrypted by any of them. In memory, objects are plain. Providers, their formats (k8s:enc:aescbc:v1:key1:…) and the rules of the
// file, wildcards too, are Kubernetes' own; the key of an object is authenticated with its value, so no value can be put in the
// place of another one.
//
//	store ── plain ──▶ Backend ── encrypted by the first provider ──▶ disk
//	store ◀─ plain ─── Backend ◀─ encrypted by any of them, or plain ─ disk
//
// A value that no provider can read ends the loading: nothing is lost, and the state can be opened again with the right keys. When
// keys are changed, what is kept under former ones is written anew with the state as a whole, after the next write that finds it
// not being written already: a former key is needed until then.
//
//	backend, err := disk.Open(dir)
//	backend, err = encrypted.Open(backend, encrypted.Config{File: "encryption.yaml"})
//	s, err := store.Open(store.Config{Backend: backend})
//
// [OpenShared] does the same before a log that several control planes share.
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

// Config says how values are encrypted.
type Config struct {
	// File is an EncryptionConfiguration. It is read again when it changes. "": values are plain, and encrypted ones can't be read.
	File string
	// Log hears of a file that changed and can't be used; nil: nobody.
	Log *slog.Logger
}

// source is where the providers come from.
type source struct {
	file *filewatch.File[*providers] // nil: there are none
	end  context.CancelFunc
}

// Backend encrypts what another one keeps.
type Backend struct {
	*source
	inner store.Backend

	used  *providers  // by the last Append; the committer's
	stale atomic.Bool // something is kept that the first provider did not write
}

// Stats implements [store.Measured], as the backend behind does.
func (b *Backend) Stats() store.BackendStats { return statsOf(b.inner) }

func statsOf(inner any) store.BackendStats {
	if m, ok := inner.(store.Measured); ok {
		return m.Stats()
	}
	return store.BackendStats{}
}

// providers are the transformers of one reading of the file.
type providers struct {
	encryptionconfig.StaticTransformers
	path func(store.Key) string // what is authenticated with a value
}

// prefix begins everything encrypted.
const prefix = "k8s:enc:"

// Open puts encryption before a backend, which it owns from then on, also if it fails.
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
	}, func(err error) { cfg.Log.Error("the encryption configuration stays as it was", "err", err) })
	if err != nil {
		end()
		return nil, fmt.Errorf("--encryption-provider-config: %w", err)
	}
	return src, nil
}

// current is nil where nothing is encrypted.
func (s *source) current() *providers {
	if s.file == nil {
		return nil
	}
	return s.file.Get()
}

// decrypt also says whether the value should be written anew.
func (p *providers) decrypt(r *store.Record) (stale bool, err error) {
	if p == nil {
		if bytes.HasPrefix(r.Data, []byte(prefix)) {
			return false, fmt.Errorf("%s %s/%s is encrypted: --encryption-provider-config must be given", r.Key.Resource, r.Key.Namespace, r.Key.Name)
		}
		return false, nil
	}
	data, stale, err := p.of(r.Key).TransformFromStorage(context.Background(), r.Data, value.DefaultContext(p.path(r.Key)))
	if err != nil {
		return false, fmt.Errorf("decrypt %s %s/%s (has its key left the encryption configuration?): %w", r.Key.Resource, r.Key.Namespace, r.Key.Name, err)
	}
	r.Data = data
	return stale, nil
}

// encrypt gives a record as it is kept.
func (p *providers) encrypt(r store.Record) (store.Record, error) {
	if p == nil || r.Data == nil {
		return r, nil
	}
	data, err := p.of(r.Key).TransformToStorage(context.Background(), r.Data, value.DefaultContext(p.path(r.Key)))
	if err != nil {
		return r, fmt.Errorf("encrypt %s %s/%s: %w", r.Key.Resource, r.Key.Namespace, r.Key.Name, err)
	}
	r.Data = data
	return r, nil
}

func (p *providers) of(key store.Key) value.Transformer {
	return p.TransformerForResource(schema.ParseGroupResource(key.Resource))
}

// registryPath is the key in a backend, which has none of its own.
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
	kept := make([]store.Record, len(records))
	for i, r := range records {
		var err error
		if kept[i], err = now.encrypt(r); err != nil {
			return fmt.Errorf("%w: %w", store.ErrNotWritten, err)
		}
	}
	return b.inner.Append(kept)
}

// Recover implements [store.Recoverer], as the backend behind does.
func (b *Backend) Recover() error {
	if r, ok := b.inner.(store.Recoverer); ok {
		return r.Recover()
	}
	return nil
}

// rewriter is a backend that can be told to write the state as a whole.
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
		// A value that can't be encrypted ends the writing in the middle. To end the sequence would make it look whole.
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
				kept, err := now.encrypt(r)
				if err != nil {
					panic(cantEncrypt{err})
				}
				if !yield(kept) {
					return
				}
			}
		})
	}
}

// cantEncrypt is the error of a value, on its way through a backend.
type cantEncrypt struct{ error }

// Close implements [store.Backend].
func (b *Backend) Close() error {
	b.end()
	return b.inner.Close()
}

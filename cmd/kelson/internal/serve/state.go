package serve

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/disk"
	"kelson.dev/cmd/kelson/internal/flags"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/history"
)

// stateOptions are the flags that select where a control plane stores its state.
type stateOptions struct {
	dataDir  string
	inMemory bool
	noSync   bool

	etcd           flags.Etcd
	etcdCompaction time.Duration

	encryption flags.Encryption
	memory     flags.Memory

	history []string // limits of the history; none: no history is kept
	past    pastOptions

	flags *pflag.FlagSet // as registered by addFlags; nil if the options do not come from flags
}

func (o *stateOptions) addFlags(f *pflag.FlagSet) {
	o.flags = f
	o.memory.AddFlags(f)
	if o.past.fork {
		o.past.addForkFlags(f)
		return
	}
	f.StringVar(&o.dataDir, "data-dir", "", "directory of the state; created if it does not exist (default "+
		DefaultDataDir()+")")
	f.BoolVar(&o.inMemory, "in-memory", false, "keep the state only in memory")
	f.BoolVar(&o.noSync, "unsafe-no-sync", false,
		"do not wait until writes are on disk: a crash of the machine may lose acknowledged writes")
	o.etcd.AddFlags(f, "URLs of an etcd cluster that stores the state; the data directory then holds only keys; several control planes can share the cluster if they have the same keys (the pki folder of their data directories)")
	f.DurationVar(&o.etcdCompaction, "etcd-compaction-interval", 5*time.Minute,
		"how often to compact etcd's history; 0: never, leave it to etcd's own configuration")
	o.encryption.AddFlags(f)
	f.StringSliceVar(&o.history, "history", nil,
		"keep every version of every object in the data directory, for kelson history, diff, fork and serve --at: how long (24h, 7d), up to which size (10GiB), or both, separated by a comma")
	f.StringVar(&o.past.at, "at", "", "serve the state at a revision or time of the history in the data directory, read-only; its server may be running")
	f.StringVar(&o.past.file, "history-file", "",
		"history to read with --at, as written by kelson record, instead of the data directory's")
}

func (o *stateOptions) check() error {
	switch {
	case o.inMemory && o.dataDir != "" && len(o.etcd.Servers) == 0:
		return errors.New("--in-memory and --data-dir cannot be used together")
	case o.inMemory && len(o.etcd.Servers) > 0:
		return errors.New("--in-memory and --etcd-servers cannot be used together")
	case o.inMemory && o.noSync:
		return errors.New("--in-memory and --unsafe-no-sync cannot be used together: a state in memory is never written to disk")
	case o.noSync && len(o.etcd.Servers) > 0:
		return errors.New("--unsafe-no-sync and --etcd-servers cannot be used together: the members of etcd decide when their writes are on disk")
	case len(o.history) > 0 && o.inMemory:
		return errors.New("--history and --in-memory cannot be used together: the history is in the data directory")
	case len(o.history) > 0 && len(o.etcd.Servers) > 0:
		return errors.New("--history and --etcd-servers cannot be used together: several servers may write to etcd; use kelson record")
	case len(o.history) > 0 && o.encryption.File != "":
		return errors.New("--history and --encryption-provider-config cannot be used together: the history is not encrypted")
	}
	if err := o.memory.Check(); err != nil {
		return err
	}
	if _, err := history.ParseLimits(o.history...); err != nil {
		return fmt.Errorf("--history: %w", err)
	}
	if err := o.encryption.Check(!o.inMemory); err != nil {
		return err
	}
	if len(o.etcd.Servers) == 0 {
		if name := o.givenEtcdFlag(); name != "" {
			return fmt.Errorf("--%s has no effect without --etcd-servers", name)
		}
	}
	return o.etcd.Check()
}

// givenEtcdFlag returns the name of an --etcd flag that the command line sets, also to its default;
// "" if there is none.
func (o *stateOptions) givenEtcdFlag() (name string) {
	if o.flags == nil {
		return ""
	}
	o.flags.VisitAll(func(f *pflag.Flag) {
		if name == "" && f.Changed && strings.HasPrefix(f.Name, "etcd-") {
			name = f.Name
		}
	})
	return name
}

// state is the opened state of a control plane, with its keys.
type state struct {
	dir       string
	store     *store.Store
	authority *pki.Authority
	tokenKey  crypto.Signer // nil if the state is in memory: the key is not stored
	from      string        // the moment of a history; "" if the state is the control plane's own
	revision  uint64        // of that moment
	when      time.Time     // of that moment
	notes     []string      // what is missing from the state
	once      []func(context.Context) error
	stopping  func() // to be called when the server begins to stop
	cleanup   []func() error
}

// open creates or opens the state and sets it in cfg. The caller runs s.cleanup in reverse order,
// also after an error.
func (o *stateOptions) open(ctx context.Context, cfg *controlplane.Config, log *slog.Logger) (s *state, err error) {
	s = &state{stopping: func() {}}
	open := store.Config{Log: log, Budget: o.memory.Budget()}
	switch {
	case o.past.at != "":
		err = o.openMoment(ctx, s, &open)
	case o.inMemory:
		err = s.openMemory()
	default:
		err = o.openKept(ctx, s, &open, log)
	}
	if err != nil {
		return s, errors.Join(err, closeAll(open))
	}
	if s.store, err = store.Open(open); err != nil {
		return s, fmt.Errorf("open state: %w", err)
	}
	s.cleanup = append(s.cleanup, s.store.Close)
	cfg.Store, cfg.Once = s.store, s.once
	return s, nil
}

// openMoment opens a moment of a history, in memory or in a folder from which it continues.
func (o *stateOptions) openMoment(ctx context.Context, s *state, open *store.Config) (err error) {
	if o.past.to == "" {
		if err := s.tempDir(); err != nil {
			return err
		}
		return o.openPast(ctx, s, open)
	}
	if s.dir, err = filepath.Abs(o.past.to); err != nil {
		return err
	}
	if err := o.openPast(ctx, s, open); err != nil {
		return err
	}
	return s.openKeys()
}

// openMemory makes an empty state in memory.
func (s *state) openMemory() (err error) {
	if err := s.tempDir(); err != nil {
		return err
	}
	s.authority, err = pki.NewAuthority("kelson-ca")
	return err
}

// openKept opens the state in the data directory or in etcd.
func (o *stateOptions) openKept(ctx context.Context, s *state, open *store.Config, log *slog.Logger) (err error) {
	if s.dir = cmp.Or(o.dataDir, DefaultDataDir()); s.dir == "" {
		return ErrNoDataDir
	}
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return err
	}
	if len(o.etcd.Servers) > 0 {
		err = o.openEtcd(ctx, s, open, log)
	} else {
		err = o.openDisk(s.dir, open, log)
	}
	if err != nil {
		return err
	}
	return s.openKeys()
}

// openDisk opens the data directory, with the history if it is kept.
func (o *stateOptions) openDisk(dir string, open *store.Config, log *slog.Logger) error {
	opts := disk.Options{NoSync: o.noSync, Log: log}
	var retainer *history.Retainer
	if len(o.history) > 0 {
		limits, err := history.ParseLimits(o.history...)
		if err != nil {
			return fmt.Errorf("--history: %w", err)
		}
		retainer = history.NewRetainer(filepath.Join(dir, history.Folder),
			history.RetainerConfig{Limits: limits, Describe: describe, Log: log})
		opts.KeepAfter = retainer.Durable
	}
	backend, err := disk.OpenWith(dir, opts)
	if err != nil {
		return fmt.Errorf("open data directory: %w", err)
	}
	if retainer != nil {
		backend = retainer.Backend(backend)
	}
	open.Backend, err = o.encryption.Wrap(backend, log)
	return err
}

func closeAll(open store.Config) error {
	var errs []error
	if open.Backend != nil {
		errs = append(errs, open.Backend.Close())
	}
	if open.Shared != nil {
		errs = append(errs, open.Shared.Close())
	}
	return errors.Join(errs...)
}

// tempDir creates a directory that is removed at the end.
func (s *state) tempDir() (err error) {
	if s.dir, err = os.MkdirTemp("", "kelson-"); err == nil {
		s.cleanup = append(s.cleanup, func() error { return os.RemoveAll(s.dir) })
	}
	return err
}

func (s *state) openKeys() (err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	if s.authority, err = pki.OpenAuthority(filepath.Join(s.dir, "pki"), "kelson-ca"); err != nil {
		return err
	}
	s.tokenKey, err = pki.OpenKey(filepath.Join(s.dir, "pki", "sa.key"))
	return err
}

func (o *stateOptions) openEtcd(ctx context.Context, s *state, open *store.Config, to *slog.Logger) error {
	log, err := o.etcd.Open(ctx, func(err error) {
		to.Warn("etcd keeps its history until the next attempt to remove it", "err", err)
	})
	if err != nil {
		return err
	}
	if open.Shared, err = o.encryption.WrapShared(log, to); err != nil {
		return err
	}
	s.stopping = log.Leave
	if o.etcdCompaction > 0 {
		s.once = append(s.once, func(ctx context.Context) error { return log.CompactEvery(ctx, o.etcdCompaction) })
	}
	return nil
}

// ErrNoDataDir means that the environment names no folder for the user's data. A folder with a
// known name among temporary files could be of another user.
var ErrNoDataDir = errors.New("no folder for the data: set --data-dir, HOME or XDG_DATA_HOME")

// DefaultDataDir returns the directory of the state in the user's data folder, or "" if the
// environment names none.
func DefaultDataDir() string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "kelson")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "share", "kelson")
}

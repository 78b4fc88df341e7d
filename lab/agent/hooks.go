package agent

// hooks are the functions of the operator's dependencies that the agent replaces, by package.
var hooks = map[string]hook{
	// Until 0.11, leaders renewed a ConfigMap and a Lease; since then, only the Lease. The renewals
	// of Leases are not sent to the kelson process.
	"sigs.k8s.io/controller-runtime/pkg/leaderelection": {[]string{"getInClusterNamespace", "NewResourceLock"},
		`package leaderelection

import (
	"reflect"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	kelson KELSON
)

func getInClusterNamespace() (string, error) { return kelson.Namespace(), nil }

// NewResourceLock returns a lock of a Lease, unless the operator chose another one.
func NewResourceLock(config *rest.Config, provider recorder.Provider, options Options) (resourcelock.Interface, error) {
	lock := reflect.ValueOf(&options).Elem().FieldByName("LeaderElectionResourceLock")
	if lock.IsValid() && (lock.String() == "" || strings.HasSuffix(lock.String(), "leases")) {
		lock.SetString("leases")
	}
	return ` + original + `NewResourceLock(config, provider, options)
}
`},
	"kelson.dev/operator/client": {[]string{"New"}, `package client

import (
	"k8s.io/client-go/rest"

	kelson KELSON
)

// New returns a client of the kelson process.
func New(cfg Config) (Client, error) {
	if cfg.REST != nil && cfg.REST.Transport == nil {
		cfg.REST = rest.CopyConfig(cfg.REST)
		cfg.REST.Transport = kelson.Transport
	}
	return ` + original + `New(cfg)
}
`},
}

// companions are files that are added to the operator's main package if it depends on a package.
var companions = map[string]string{
	"k8s.io/apimachinery/pkg/util/rand": `package main

import (
	kelson_rand "k8s.io/apimachinery/pkg/util/rand"

	kelson_agent KELSON
)

func init() { kelson_agent.Seeds = append(kelson_agent.Seeds, kelson_rand.Seed) }
`,
	"github.com/google/uuid": `package main

import (
	kelson_uuid "github.com/google/uuid"

	kelson_agent KELSON
)

func init() {
	kelson_agent.Seeds = append(kelson_agent.Seeds, func(n int64) { kelson_uuid.SetRand(kelson_agent.Random(n)) })
}
`,
	// The handlers after the first limit the rate of errors: they sleep while they hold a lock. A
	// goroutine that waits for the lock would stop the time.
	"k8s.io/apimachinery/pkg/util/runtime": `package main

import kelson_runtime "k8s.io/apimachinery/pkg/util/runtime"

func init() {
	if len(kelson_runtime.ErrorHandlers) > 1 {
		kelson_runtime.ErrorHandlers = kelson_runtime.ErrorHandlers[:1]
	}
}
`,
}

// dialingCompanions are companions of operators that call services.
var dialingCompanions = map[string]string{
	// The virtual network has no DNS. The agent's connections go to names.
	grpc + "/resolver": `package main

import kelson_resolver "google.golang.org/grpc/resolver"

type kelson_names struct{ kelson_resolver.Builder }

func (kelson_names) Scheme() string { return "dns" }

func init() {
	if b := kelson_resolver.Get("passthrough"); b != nil {
		kelson_resolver.Register(kelson_names{b})
	}
}
`,
}

// stubs replace packages that start goroutines which wait for the system. Such goroutines would
// stop the time.
var stubs = map[string]string{"github.com/fsnotify/fsnotify": fsnotify}

// fsnotify is a watcher of files that never change.
const fsnotify = `// Package fsnotify watches files that never change.
package fsnotify

import (
	"errors"
	"sync"
)

type Event struct {
	Name string
	Op   Op
}

type Op uint32

const (
	Create Op = 1 << iota
	Write
	Remove
	Rename
	Chmod
)

var (
	ErrNonExistentWatch = errors.New("fsnotify: can't remove non-existent watch")
	ErrEventOverflow    = errors.New("fsnotify: queue or buffer overflow")
	ErrClosed           = errors.New("fsnotify: watcher already closed")
	ErrUnsupported      = errors.New("fsnotify: not supported with this backend")
)

func (o Op) Has(h Op) bool { return o&h != 0 }

func (o Op) String() string {
	text := ""
	for i, name := range []string{"CREATE", "WRITE", "REMOVE", "RENAME", "CHMOD"} {
		if o&(1<<uint(i)) != 0 {
			if text != "" {
				text += "|"
			}
			text += name
		}
	}
	return text
}

func (e Event) Has(op Op) bool { return e.Op.Has(op) }

func (e Event) String() string { return e.Op.String() + " " + e.Name }

type Watcher struct {
	Events chan Event
	Errors chan error

	mu     sync.Mutex
	closed bool
	names  map[string]bool
}

func NewWatcher() (*Watcher, error) {
	return &Watcher{Events: make(chan Event), Errors: make(chan error), names: map[string]bool{}}, nil
}

func NewBufferedWatcher(uint) (*Watcher, error) { return NewWatcher() }

type addOpt func()

func WithBufferSize(int) addOpt { return func() {} }

func (w *Watcher) Add(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return ErrClosed
	}
	w.names[name] = true
	return nil
}

func (w *Watcher) AddWith(name string, _ ...addOpt) error { return w.Add(name) }

func (w *Watcher) Remove(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.names[name] {
		return ErrNonExistentWatch
	}
	delete(w.names, name)
	return nil
}

func (w *Watcher) WatchList() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for name := range w.names {
		all = append(all, name)
	}
	return all
}

func (w *Watcher) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		close(w.Events)
		close(w.Errors)
	}
	return nil
}
`

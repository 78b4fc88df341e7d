// Package console serves a web page that shows a cluster and why it is in its state: the objects
// that are not ready, the chains of causes that operators recorded, their timeline, and every
// object.
//
//	browser ── cookie ──▶ guard ──▶ views (a folder each) ──▶ internal/cluster ──▶ API server
//	                                      └──────────────────▶ traces, histories
//
// # Page
//
// A folder per view holds its server part (Go) and its page (JavaScript modules that use Preact and
// htm). The command in build bundles the pages to dist, which is committed and embedded, so that
// building kelson needs no other tools. The server parts respond with JSON and server-sent events
// under /api/, also over WebSockets; every other path is the page, which shows the view that the
// path names.
//
// # Rights
//
// The console acts with the rights of one rest.Config, for every client that has its address with
// the token; see guard. It sends no writes unless Config.Write is set.
//
// # Concurrency
//
// A Console is safe for concurrent use. It watches objects only while a page shows them.
package console

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"kelson.dev/console/compare"
	"kelson.dev/console/exec"
	"kelson.dev/console/history"
	"kelson.dev/console/internal/cluster"
	"kelson.dev/console/internal/inventory"
	"kelson.dev/console/internal/traces"
	"kelson.dev/console/internal/web"
	"kelson.dev/console/now"
	"kelson.dev/console/objects"
	"kelson.dev/console/ownership"
	"kelson.dev/console/plan"
	"kelson.dev/console/reconcile"
	"kelson.dev/console/rights"
	"kelson.dev/console/search"
	"kelson.dev/console/timeline"
	"kelson.dev/console/why"
	"kelson.dev/lab/diagnosis"
)

// TraceSource is the source of an operator's trace: a file or a URL.
type TraceSource = traces.Source

// IsURL reports whether the place of a trace is a URL.
func IsURL(place string) bool { return traces.IsURL(place) }

// Config configures a console.
type Config struct {
	// Cluster is the cluster to show, and the user whose rights the console has.
	Cluster *rest.Config
	// Name is shown as the name of the cluster; by default it is the address of its API server.
	Name string
	// Namespaces are the namespaces that Now, Map and the search show if the user may not list
	// objects in all namespaces. If it is empty, they show the first 20 namespaces that the user
	// may list.
	Namespaces []string
	// Write permits changes.
	Write bool
	// Traces are the traces of operators.
	Traces []TraceSource
	// History is a file that kelson record writes, or the data directory of a server that keeps a
	// history; empty: none.
	History string
	// Moment is the moment of the history whose state the cluster has, or from which it has
	// continued; nil if the state is not from a history. The console of a past state cannot change
	// objects.
	Moment *Moment
	// Failure is a file with a failure of kelson explore, in JSON; empty: none.
	Failure string
	// Plan is a file with the output of kelson plan in JSON or YAML; the console follows changes of
	// the file. Empty: none.
	Plan string
	// MakePlan makes plans on request; nil: the console makes none. These plans replace the plan of
	// the file. It must not change the cluster: it is also called if Write is false.
	MakePlan func(ctx context.Context, lastCommit bool) ([]byte, error)
	// AuditLog is the audit log of the cluster, in JSON; empty: none.
	AuditLog string
	// Listener is the listener from which Run accepts connections. The caller binds it to a
	// loopback address, unless connections are encrypted.
	Listener net.Listener
	// Hosts are more names by which browsers reach the listener, without ports.
	Hosts []string
	// Secure means that connections of the listener are encrypted with TLS.
	Secure bool
}

// Moment is a moment of a history.
type Moment struct {
	Revision uint64    `json:"revision,string"` // may exceed JavaScript numbers
	Time     time.Time `json:"time"`
	// Fork is true if the cluster has continued from the moment, and accepts writes.
	Fork bool `json:"fork,omitempty"`
}

// Console serves the page.
type Console struct {
	config    Config
	cluster   *cluster.Cluster
	inventory *inventory.Inventory
	traces    *traces.Traces
	history   *history.Server
	diagnosis diagnosis.Cluster
	guard     *guard
	ctx       context.Context // of all requests
	stop      context.CancelFunc
}

// New returns a console that is not serving yet: call Run.
func New(config Config) (*Console, error) {
	address, ok := config.Listener.Addr().(*net.TCPAddr)
	if !ok {
		return nil, fmt.Errorf("console: listener on %s: need TCP", config.Listener.Addr().Network())
	}
	config.Cluster = rest.CopyConfig(config.Cluster)
	config.Cluster.WarningHandler = rest.NoWarnings{} // it reads kinds that are deprecated, too
	connected, err := cluster.New(config.Cluster, config.Namespaces)
	if err != nil {
		return nil, err
	}
	diagnosed, err := diagnosis.Connect(connected.Config())
	if err != nil {
		return nil, err
	}
	if config.Name == "" {
		config.Name = connected.Host()
	}
	objects := inventory.New(connected)
	past := &history.Server{Source: config.History, Inventory: objects}
	if m := config.Moment; m != nil {
		past.Moment = m.Revision
		config.Write = config.Write && m.Fork
	}
	c := &Console{
		config: config, cluster: connected, inventory: objects, traces: traces.New(config.Traces),
		history: past, diagnosis: diagnosed,
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.guard = newGuard(hosts(address, config.Hosts), config.Secure, c.routes())
	return c, nil
}

func (c *Console) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /api/session", web.Func(c.session))
	for _, view := range []interface{ Routes(*http.ServeMux) }{
		&objects.Server{Cluster: c.cluster, Write: c.config.Write},
		&exec.Server{Cluster: c.cluster, Write: c.config.Write},
		&search.Server{Cluster: c.cluster, Inventory: c.inventory},
		&now.Server{Inventory: c.inventory, Traces: c.traces, Logs: c.diagnosis.Logs},
		&why.Server{Traces: c.traces, Cluster: c.cluster, Diagnosis: c.diagnosis},
		&reconcile.Server{Traces: c.traces},
		&compare.Server{Traces: c.traces, Failure: c.config.Failure},
		&rights.Server{Cluster: c.cluster, Log: c.config.AuditLog},
		plan.New(c.ctx, c.config.Plan, c.config.MakePlan),
		&timeline.Server{Traces: c.traces, Inventory: c.inventory, Failure: c.config.Failure},
		&ownership.Server{Inventory: c.inventory, Traces: c.traces},
		c.history,
	} {
		view.Routes(mux)
	}
	mux.Handle("/api/", web.Func(func(r *http.Request) (any, error) {
		return nil, web.Errorf(http.StatusNotFound, "the console has no %s %s", r.Method, r.URL.Path)
	}))
	mux.Handle("/", page())
	return web.Sockets(mux)
}

// session describes the parts of the console that the page shows.
func (c *Console) session(*http.Request) (any, error) {
	version, err := c.cluster.Version()
	s := map[string]any{"cluster": c.config.Name, "server": c.cluster.Host(), "version": version,
		"write": c.config.Write, "failure": c.config.Failure != "", "moment": c.config.Moment}
	if err != nil {
		s["error"] = web.AsError(err)
	}
	return s, nil
}

// URL returns the address to open in a browser. It contains the token.
func (c *Console) URL() string {
	scheme := "http"
	if c.config.Secure {
		scheme = "https"
	}
	address := c.config.Listener.Addr().(*net.TCPAddr)
	host := address.String()
	if address.IP.IsUnspecified() {
		host = c.guard.hosts[0]
	}
	return scheme + "://" + host + "/?token=" + c.guard.token
}

// shutdownTime is how long Run waits at the end for requests in flight. Run ends streams first.
const shutdownTime = 2 * time.Second

// The time limits of a client for its request, and from the request to the end of the response.
// Streams have their own; see web.Stream.
const (
	readWithin  = 30 * time.Second
	writeWithin = time.Minute
)

// Run serves until ctx ends.
func (c *Console) Run(ctx context.Context) error {
	server := &http.Server{
		Handler:           c.guard,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       readWithin,
		WriteTimeout:      writeWithin,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return c.ctx },
	}
	go c.traces.Run(c.ctx)
	served := make(chan error, 1)
	go func() { served <- server.Serve(c.config.Listener) }()
	defer c.history.Close()
	defer c.inventory.Close()
	defer c.stop()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	c.stop() // ends the streams
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	err := server.Shutdown(last)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	return err
}

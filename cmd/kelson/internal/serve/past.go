package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
	"kelson.dev/apiserver/store/disk"
	"kelson.dev/lab/history"
	"kelson.dev/lab/past"
)

// pastOptions are the flags of control planes that begin with a moment of a history.
type pastOptions struct {
	at   string // empty: the control plane has a state of its own
	file string // history; empty: that of dir
	dir  string // data directory with the history; empty: the default one
	fork bool   // the control plane is writable
	to   string // data directory to create for it; empty: its state is in memory
}

func (o *pastOptions) addForkFlags(f *pflag.FlagSet) {
	f.StringVar(&o.at, "at", "", "revision or time from which to continue")
	f.StringVar(&o.file, "file", "", "history to read, as written by kelson record")
	f.StringVar(&o.dir, "data-dir", "", "data directory of kelson serve --history to read, instead of a file; its server may be running (default "+DefaultDataDir()+")")
	f.StringVar(&o.to, "to", "", "data directory to create for the state, which kelson serve can continue later (default: the state is in memory)")
}

// readOnly reports whether a past state is served.
func (o *pastOptions) readOnly() bool { return o.at != "" && !o.fork }

// noEffect lists the flags that have no effect on a server of a past state.
var noEffect = []string{
	"node", "nodes", "stages", "workloads", "scheduler-config", "cluster-cidr", "load-balancer-cidr", "controllers",
	"cloud-provider", "planes",
}

// check returns an error for flags of kelson serve that contradict --at.
func (o *pastOptions) check(c *cobra.Command) error {
	switch {
	case o.fork && o.file != "" && o.dir != "":
		return errors.New("--file and --data-dir cannot be used together")
	case o.fork && o.to != "":
		return checkNew(o.to)
	case o.fork || o.at == "" && o.file == "":
		return nil
	case o.at == "":
		return errors.New("--history-file has no effect without --at")
	case o.file != "" && c.Flags().Changed("data-dir"):
		return errors.New("--history-file and --data-dir cannot be used together")
	}
	for _, name := range []string{"in-memory", "unsafe-no-sync", "history", "etcd-servers",
		"encryption-provider-config"} {
		if c.Flags().Changed(name) {
			return fmt.Errorf("--at and --%s cannot be used together: the state comes from a history", name)
		}
	}
	for _, name := range noEffect {
		if c.Flags().Changed(name) {
			return fmt.Errorf("--%s has no effect with --at: a past state does not change", name)
		}
	}
	return nil
}

// checkNew returns an error if a folder exists and is not empty.
func checkNew(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("--to: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("--to %s: the folder is not empty: name a new one", dir)
	}
	return nil
}

// quiet turns off everything that would change a past state: controllers and nodes.
func (o *Options) quiet() {
	o.Node, o.workloads, o.nodes, o.controllers = "none", false, nil, nil
}

// ForkCommand returns kelson fork.
func ForkCommand() *cobra.Command {
	var opts Options
	opts.state.past.fork = true
	c := &cobra.Command{
		Use:   "fork",
		Short: "Start a control plane from a moment of a history",
		Long: `Start a control plane from a moment of a history.

The control plane has the objects of that moment and accepts writes. Its
controllers continue with them. The history does not change, and a server that
writes it is not affected. A moment is a revision (a resourceVersion) or a time in
RFC 3339.

The state is in memory, except with --to: then, kelson serve --data-dir continues
it later. Certificates and tokens are new; the kubeconfig has administrator
rights. Values of Secrets are empty if they were not recorded.`,
		Example: `  kelson fork --at 4802 --data-dir ./state --secure-port 0 --kubeconfig /tmp/fork
  kelson fork --at 2026-11-23T10:00:00Z --file incident.history --to ./fork`,
	}
	opts.complete(c)
	_ = c.MarkFlagRequired("at") // the flag exists
	return c
}

// historySource returns the file or data directory of the history that the server keeps or comes
// from; "" if there is none.
func (o *stateOptions) historySource() string {
	if o.past.file != "" {
		return o.past.file
	}
	if o.past.at == "" && len(o.history) == 0 {
		return ""
	}
	dir := o.dataDir
	if o.past.fork {
		dir = o.past.dir
	}
	if dir == "" {
		dir = DefaultDataDir()
	}
	return dir
}

// openPast opens the state at a moment. Afterwards, the state is in memory, or in o.dataDir.
func (o *stateOptions) openPast(ctx context.Context, s *state, open *store.Config) (err error) {
	h, err := history.Open(o.historySource())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	at, err := h.Parse(o.past.at)
	if err != nil {
		return fmt.Errorf("--at: %w", err)
	}
	revision, when := at.Last()
	if revision == 0 {
		return fmt.Errorf("--at: %s: the history has no objects at that moment", o.past.at)
	}
	content, err := past.Read(at)
	if err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	s.notes = content.Notes
	s.from = fmt.Sprintf("revision %d, %s, with %d objects", revision, when.UTC().Format(time.RFC3339Nano),
		len(content.Records))
	s.revision, s.when = revision, when
	if o.past.to == "" {
		open.Backend = content.Backend(revision)
		s.authority, err = pki.NewAuthority("kelson-ca")
		return err
	}
	read, write := io.Pipe()
	go func() { write.CloseWithError(archive.Write(ctx, write, revision, slices.Values(content.Records))) }()
	if err := disk.Restore(o.past.to, read, 0); err != nil {
		_ = read.Close() // makes archive.Write return
		return err
	}
	open.Backend, err = disk.Open(o.past.to)
	return err
}

// readOnly refuses requests that write.
func readOnly(from string, inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions:
			inner.ServeHTTP(w, r)
			return
		}
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "reviews") ||
			r.URL.Query().Get("dryRun") == metav1.DryRunAll {
			inner.ServeHTTP(w, r) // stores nothing
			return
		}
		wire.Error(w, r, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed,
			Reason:  metav1.StatusReasonMethodNotAllowed,
			Message: "this server is read-only: it serves " + from + "; kelson fork starts a writable one",
		}})
	})
}

// changed names the objects that the start of a control plane wrote.
func changed(now *store.Snapshot, since uint64) (names []string) {
	for r := range now.Records() {
		if r.Revision > since {
			names = append(names, history.Key(r.Key).String())
		}
	}
	slices.Sort(names)
	return names
}

// keepPast refuses all further writes of clients and of the control plane itself.
func (p *Plane) keepPast(s *state, handler http.Handler, errOut io.Writer) http.Handler {
	if names := changed(p.Store().Snapshot(), s.revision); len(names) > 0 {
		fmt.Fprintf(errOut, "note: this version of kelson added or changed objects that every control plane has: %s\n",
			strings.Join(names, ", "))
	}
	p.Store().Gate(func(context.Context, []store.Op) error { return errPast })
	return readOnly(s.from, handler)
}

var errPast = errors.New("a past state does not change")

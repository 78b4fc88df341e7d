// Package why implements kelson why: it reads the traces that operators record and prints why an
// object is in its state.
package why

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/lab/causes"
)

type options struct {
	traces    []string
	namespace string
	last      int
	token     string
	insecure  bool
	output    output.Format
}

// Command returns kelson why.
func Command() *cobra.Command {
	opts := options{}
	c := &cobra.Command{
		Use:   "why KIND/NAME",
		Short: "Explain the state of an object: which reconciles wrote it and what caused them",
		Long: `Explain the state of an object: which reconciles wrote it and what caused them.

Operators built with kelson.dev/operator record a trace of each reconcile: the
events that caused it and its writes. This command reads traces from

  - the files and URLs of --trace; it connects the traces of several operators
  - otherwise, the trace of kelson dev, which is next to the file $KUBECONFIG

An operator writes its trace to a file if its environment has
KELSON_TRACE=file:PATH. With the flag --trace-bind-address, it serves the trace
of its latest reconciles over HTTP.`,
		Example: `  kelson why pod/example-at
  kelson why at/example-at -n default --trace http://localhost:8090 --trace other.trace`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return run(c.Context(), opts, args[0], c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringArrayVar(&opts.traces, "trace", nil, "file or URL of an operator's trace; - is standard input; may be repeated")
	f.StringVarP(&opts.namespace, "namespace", "n", "", "namespace of the object (default: any)")
	f.IntVar(&opts.last, "last", 5, "number of latest writes to show")
	opts.output.AddFlag(c)
	f.StringVar(&opts.token, "token", "", "bearer token for requests to URLs")
	f.BoolVar(&opts.insecure, "insecure-skip-tls-verify", false, "skip TLS certificate verification")
	return c
}

func run(ctx context.Context, opts options, object string, out io.Writer) error {
	kind, name, ok := strings.Cut(object, "/")
	if !ok || kind == "" || name == "" {
		return fmt.Errorf("invalid object %q: want KIND/NAME, for example pod/web", object)
	}
	traces := opts.traces
	if len(traces) == 0 {
		path := os.Getenv("KUBECONFIG") + project.TraceSuffix
		if _, err := os.Stat(path); err != nil || path == project.TraceSuffix {
			return errors.New("no trace found: pass --trace, or set KUBECONFIG to a cluster started by kelson dev")
		}
		traces = []string{path}
	}
	if err := opts.checkURLs(traces); err != nil {
		return err
	}
	var readers []io.Reader
	for _, place := range traces {
		r, err := openTrace(ctx, opts, place)
		if err != nil {
			return err
		}
		defer r.Close()
		readers = append(readers, r)
	}
	t, err := causes.Read(readers...)
	if err != nil {
		return err
	}
	found := t.Find(kind, opts.namespace, name)
	if len(found) == 0 {
		return fmt.Errorf("no recorded reconcile involves %s", object)
	}
	if opts.output != output.Text {
		all := []causes.Explanation{}
		for _, o := range found {
			all = append(all, t.Explain(o, opts.last))
		}
		return opts.output.Print(out, map[string]any{"explanations": all})
	}
	for i, o := range found {
		if i > 0 {
			fmt.Fprintln(out)
		}
		writeText(out, t.Explain(o, opts.last))
	}
	return nil
}

// checkURLs returns an error if a flag for requests was given and no trace needs it.
func (o options) checkURLs(traces []string) error {
	if o.token != "" && !slices.ContainsFunc(traces, isURL) {
		return errors.New("--token has no effect: no --trace is a URL")
	}
	if o.insecure && !slices.ContainsFunc(traces, func(place string) bool { return strings.HasPrefix(place, "https://") }) {
		return errors.New("--insecure-skip-tls-verify has no effect: no --trace is an https URL")
	}
	return nil
}

func isURL(place string) bool {
	return strings.HasPrefix(place, "http://") || strings.HasPrefix(place, "https://")
}

func openTrace(ctx context.Context, opts options, place string) (io.ReadCloser, error) {
	if place == "-" {
		return io.NopCloser(os.Stdin), nil
	}
	if !isURL(place) {
		return os.Open(place)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err != nil {
		return nil, err
	}
	if opts.token != "" {
		req.Header.Set("Authorization", "Bearer "+opts.token)
	}
	client := &http.Client{Timeout: 30 * time.Second}
	if opts.insecure {
		// --insecure-skip-tls-verify
		client.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("read trace from %s: server responded with %s", place, resp.Status)
	}
	return resp.Body, nil
}

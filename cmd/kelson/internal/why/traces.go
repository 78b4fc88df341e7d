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

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/lab/causes"
)

// Traces are the traces that a command reads.
type Traces struct {
	Places   []string // files and URLs; "-" is standard input
	Token    string   // for requests to URLs
	Insecure bool     // skips TLS certificate verification
}

// AddFlags adds the flags of t.
func (t *Traces) AddFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&t.Places, "trace", nil,
		"file or URL of an operator's trace; - is standard input; may be repeated")
	f.StringVar(&t.Token, "token", "", "bearer token for requests to URLs")
	f.BoolVar(&t.Insecure, "insecure-skip-tls-verify", false, "skip TLS certificate verification")
}

// DevTrace returns the trace of kelson dev, which is next to one of the kubeconfigs that are read.
// The result is empty if none has a trace.
func DevTrace(configs clientcmd.ConfigAccess) []string {
	for _, name := range configs.GetLoadingPrecedence() {
		if _, err := os.Stat(name + project.TraceSuffix); err == nil {
			return []string{name + project.TraceSuffix}
		}
	}
	return nil
}

// Read reads all traces. It returns an error if a flag for requests is set and no trace is a URL.
func (t *Traces) Read(ctx context.Context) (*causes.Trace, error) {
	if err := t.checkURLs(); err != nil {
		return nil, err
	}
	var readers []io.Reader
	for _, place := range t.Places {
		r, err := t.open(ctx, place)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		readers = append(readers, r)
	}
	return causes.Read(readers...)
}

// checkURLs returns an error if a flag for requests is set and no trace needs it.
func (t *Traces) checkURLs() error {
	if t.Token != "" && !slices.ContainsFunc(t.Places, isURL) {
		return errors.New("--token has no effect: no --trace is a URL")
	}
	if t.Insecure && !slices.ContainsFunc(t.Places, func(place string) bool {
		return strings.HasPrefix(place, "https://")
	}) {
		return errors.New("--insecure-skip-tls-verify has no effect: no --trace is an https URL")
	}
	return nil
}

func isURL(place string) bool {
	return strings.HasPrefix(place, "http://") || strings.HasPrefix(place, "https://")
}

func (t *Traces) open(ctx context.Context, place string) (io.ReadCloser, error) {
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
	if t.Token != "" {
		req.Header.Set("Authorization", "Bearer "+t.Token)
	}
	client := &http.Client{Timeout: 30 * time.Second}
	if t.Insecure {
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

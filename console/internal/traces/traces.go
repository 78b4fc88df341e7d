// Package traces follows the traces of operators while the console runs.
package traces

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"kelson.dev/console/internal/web"
	"kelson.dev/lab/causes"
	"kelson.dev/operator/trace"
)

// Source is the file or URL of a trace.
type Source struct {
	// Place is a file, which may be created later, or a URL of an operator that serves its latest
	// reconciles.
	Place string
	// Token is a bearer token for a URL.
	Token string
	// Insecure skips the verification of TLS certificates.
	Insecure bool
}

// IsURL reports whether a place is a URL.
func IsURL(place string) bool {
	return strings.HasPrefix(place, "http://") || strings.HasPrefix(place, "https://")
}

// maxRecords bounds the reconciles that the console keeps; older ones are removed. A thousand take
// up to three megabytes.
const maxRecords = 50_000

// Traces is the union of the traces of several sources. It is safe for concurrent use.
type Traces struct {
	*causes.Trace
	sources []Source
	changed *web.Signal

	mu     sync.Mutex
	errors map[string]string // by place
}

// New returns traces that are empty until Run reads the sources.
func New(sources []Source) *Traces {
	return &Traces{Trace: causes.New(maxRecords), sources: sources, changed: web.NewSignal(),
		errors: map[string]string{}}
}

// Sources returns the number of sources.
func (t *Traces) Sources() int { return len(t.sources) }

// Errors returns the errors of sources that can't be read, by place.
func (t *Traces) Errors() map[string]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[string]string{}
	for place, err := range t.errors {
		all[place] = err
	}
	return all
}

// Changed returns a channel that is closed at the next change.
func (t *Traces) Changed() <-chan struct{} { return t.changed.Wait() }

// Intervals at which sources are read.
const (
	fileInterval = 200 * time.Millisecond
	urlInterval  = 2 * time.Second
)

// Run follows the sources until ctx ends.
func (t *Traces) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, s := range t.sources {
		all.Go(func() {
			read, interval := fileReader(s.Place), fileInterval
			if IsURL(s.Place) {
				read, interval = urlReader(s), urlInterval
			}
			for ctx.Err() == nil {
				t.update(s.Place, read, ctx)
				select {
				case <-ctx.Done():
				case <-time.After(interval):
				}
			}
		})
	}
	all.Wait()
}

var errMalformed = errors.New("not a trace: a line is not a record in JSON")

// reader returns the complete lines that were added since its last call, or nil if there are none.
// It may also return earlier lines again.
type reader func(context.Context) (io.ReadCloser, error)

func (t *Traces) update(place string, read reader, ctx context.Context) {
	from, err := read(ctx)
	added, empty := false, true
	if from == nil {
		from = http.NoBody
	}
	defer from.Close()
	lines := bufio.NewReader(from)
	for err == nil {
		line, readErr := lines.ReadBytes('\n')
		if errors.Is(readErr, io.EOF) {
			break // an incomplete line is read again
		}
		if empty, err = false, readErr; err != nil {
			break
		}
		record := &trace.LineRecord{}
		if json.Unmarshal(line, record) != nil {
			err = errMalformed
			break
		}
		added = t.Add(record) || added
	}
	text := ""
	if err != nil && ctx.Err() == nil {
		text = err.Error()
	}
	t.mu.Lock()
	if empty && err == nil && t.errors[place] == errMalformed.Error() {
		text = t.errors[place] // the malformed file has not grown
	}
	added = added || t.errors[place] != text
	if text == "" {
		delete(t.errors, place)
	} else {
		t.errors[place] = text
	}
	t.mu.Unlock()
	if added {
		t.changed.Notify()
	}
}

// fileReader reads a file that grows. If the file became shorter, it was replaced, and is read from
// its beginning.
func fileReader(name string) reader {
	var offset int64
	return func(context.Context) (_ io.ReadCloser, err error) {
		f, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) {
			offset = 0
			return nil, nil // the operator has not started
		}
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if info.Size() < offset {
			offset = 0
		}
		end, err := lastLine(f, offset, info.Size())
		if err != nil || end == offset {
			return nil, errors.Join(err, f.Close())
		}
		added := io.NewSectionReader(f, offset, end-offset)
		offset = end
		return struct {
			io.Reader
			io.Closer
		}{added, f}, nil
	}
}

// lastLine returns the end of the last complete line between two positions of a file; the first
// position if there is none.
func lastLine(f io.ReaderAt, from, to int64) (int64, error) {
	block := make([]byte, 64<<10)
	for to > from {
		part := block[:min(int64(len(block)), to-from)]
		if _, err := f.ReadAt(part, to-int64(len(part))); err != nil {
			return from, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return to - int64(len(part)) + int64(i) + 1, nil
		}
		to -= int64(len(part))
	}
	return from, nil
}

// maxTrace bounds the response of a URL in bytes.
const maxTrace = 64 << 20

func urlReader(s Source) reader {
	client := &http.Client{Timeout: 30 * time.Second}
	if s.Insecure {
		// the user requested this
		client.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	}
	return func(ctx context.Context) (io.ReadCloser, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Place, nil)
		if err != nil {
			return nil, err
		}
		if s.Token != "" {
			req.Header.Set("Authorization", "Bearer "+s.Token)
		}
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusOK {
			resp.Body.Close()
			return nil, fmt.Errorf("server responded with %s", resp.Status)
		}
		return struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxTrace), resp.Body}, nil
	}
}

// Command floor answers the requests of bench/customserver with prepared bytes. It does not
// authenticate clients, decode requests or keep objects. Before it answers a write, it writes the
// body to a file and waits for fdatasync, once for all writes that wait. Its figures are therefore
// the limit for a durable server with the TLS and HTTP of kelson.dev/apiserver, on the same machine
// with the same clients.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/serving"
)

// object is a Flunder of bench/customserver as kelson.dev/apiserver returns it.
var object = []byte(`{"apiVersion":"wardle.example.com/v1alpha1","kind":"Flunder","metadata":{"name":"l1234","namespace":"kube-public",` +
	`"uid":"8c1d1e4c-93bb-4b57-9a5c-0ab53a4a9d6b","resourceVersion":"12345","generation":1,"creationTimestamp":"2026-11-26T00:00:00Z",` +
	`"managedFields":[{"manager":"customserver","operation":"Update","apiVersion":"wardle.example.com/v1alpha1","time":"2026-11-26T00:00:00Z",` +
	`"fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:reference":{}}}}]},"spec":{"reference":"` +
	strings.Repeat("x", 200) + `"},"status":{}}`)

func main() {
	port := flag.String("secure-port", "0", "port of 127.0.0.1")
	dir := flag.String("data-dir", "", "folder of the file for writes")
	items := flag.Int("items", 10_000, "objects in a list")
	flag.Parse()
	if err := run(*port, *dir, *items); err != nil {
		exit(err)
	}
}

func exit(err error) {
	fmt.Fprintln(os.Stderr, "floor:", err)
	os.Exit(1)
}

func run(port, dir string, items int) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer file.Close()
	h := newHandler(items)
	go h.commit(file)
	authority, err := pki.NewAuthority("floor")
	if err != nil {
		return err
	}
	listener, err := serving.Listen(net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return err
	}
	srv, err := serving.New(serving.Config{Listener: listener, Handler: h, Certificate: authority.Serving("127.0.0.1")})
	if err != nil {
		return err
	}
	return srv.Run(ctx)
}

// handler answers requests with prepared bytes.
type handler struct {
	list, event []byte
	writes      chan write

	mu       sync.Mutex
	watchers map[chan struct{}]bool
}

func newHandler(items int) *handler {
	list := `{"apiVersion":"wardle.example.com/v1alpha1","kind":"FlunderList","metadata":{"resourceVersion":"12345"},"items":[` +
		strings.TrimSuffix(strings.Repeat(string(object)+",", items), ",") + "]}"
	return &handler{
		list: []byte(list), event: []byte(`{"type":"ADDED","object":` + string(object) + "}\n"),
		watchers: map[chan struct{}]bool{}, writes: make(chan write, 1000),
	}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method == http.MethodPost:
		h.append(r.Body)
		h.created()
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(object)
	case r.Method != http.MethodGet:
		h.append(r.Body)
		_, _ = w.Write(object)
	case r.URL.RawQuery == "watch=true":
		h.watch(w, r)
	case strings.HasSuffix(r.URL.Path, "/flunders"):
		_, _ = w.Write(h.list)
	default:
		_, _ = w.Write(object)
	}
}

// write is the body of a request, with a channel that is closed when the body is on the disk.
type write struct {
	body []byte
	done chan struct{}
}

// append returns when the body of a request is on the disk.
func (h *handler) append(r io.Reader) {
	body, err := io.ReadAll(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w := write{body, make(chan struct{})}
	h.writes <- w
	<-w.done
}

// commit writes the bodies of requests to a file. One sync serves all requests that wait for it.
func (h *handler) commit(file *os.File) {
	// A sync of blocks that were written before needs no change of metadata.
	if err := prepare(file); err != nil {
		exit(err)
	}
	for w := range h.writes {
		waiting := []write{w}
		batch := w.body
		for range len(h.writes) {
			w := <-h.writes
			waiting, batch = append(waiting, w), append(batch, w.body...)
		}
		_, err := file.Write(batch)
		if err == nil {
			err = syscall.Fdatasync(int(file.Fd()))
		}
		if err != nil {
			exit(err)
		}
		for _, w := range waiting {
			close(w.done)
		}
	}
}

// prepare fills a file with zeros, more than the clients write, and returns to its beginning.
func prepare(file *os.File) error {
	if _, err := file.Write(make([]byte, 32<<20)); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	_, err := file.Seek(0, io.SeekStart)
	return err
}

// created sends an event to each watcher.
func (h *handler) created() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for events := range h.watchers {
		events <- struct{}{}
	}
}

// watch writes the event of each creation until the client leaves.
func (h *handler) watch(w http.ResponseWriter, r *http.Request) {
	events := make(chan struct{}, 1<<14)
	h.mu.Lock()
	h.watchers[events] = true
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers, events)
	}()
	flusher := w.(http.Flusher)
	flusher.Flush()
	for {
		select {
		case <-events:
		case <-r.Context().Done():
			return
		}
		_, _ = w.Write(h.event)
		for range len(events) {
			<-events
			_, _ = w.Write(h.event)
		}
		flusher.Flush()
	}
}

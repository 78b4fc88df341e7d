package explore

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/inprocess"
	"kelson.dev/operator/reconcile"
)

// front is the port at which a process of a Binary reaches its control plane.
type front struct {
	server     *http.Server
	kubeconfig string
}

// serveFront opens a loopback port in the network of the calling thread, and writes a kubeconfig
// for it.
func serveFront(dir string, handler http.Handler) (*front, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(dir, "kubeconfig-")
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	f := &front{server: &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}, kubeconfig: file.Name()}
	const form = `apiVersion: v1
kind: Config
current-context: explore
clusters: [{name: explore, cluster: {server: "http://%s"}}]
users: [{name: explore, user: {}}]
contexts: [{name: explore, context: {cluster: explore, user: explore, namespace: default}}]
`
	_, err = fmt.Fprintf(file, form, listener.Addr())
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	go func() { _ = f.server.Serve(listener) }() // until close
	return f, nil
}

func (f *front) close() {
	f.server.Close()
	os.Remove(f.kubeconfig)
}

// handler passes requests that arrive at a port to the transport of the process. A request without
// a response ends its connection, as when a server or a network fails.
func (p *process) handler(config *rest.Config) http.Handler {
	target, err := url.Parse(inprocess.URL)
	if err != nil {
		panic(err) // a constant
	}
	var outer http.RoundTripper = &transport{process: p, inner: config.Transport}
	if config.WrapTransport != nil { // kelson rights records requests
		outer = config.WrapTransport(outer)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			header := r.Out.Header
			header.Del("Accept-Encoding")
			header.Del("Authorization")
			if user := config.Impersonate.UserName; user != "" && header.Get("Impersonate-User") == "" {
				header.Set("Impersonate-User", user)
			}
		},
		Transport:     outer,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
}

// output keeps the end of a process's output.
type output struct {
	mu   sync.Mutex
	kept []byte
	line []byte // the last line, which is not complete
	seen bool   // recovered was called for a panic
	// recovered is called with the first panic from which the operator has recovered.
	recovered func(detail string)
	// failed receives each error of a reconcile.
	failed func(id, text string)
}

// maxLine is the number of bytes of a line that are parsed.
const maxLine = 32 << 10

// Write implements io.Writer.
func (o *output) Write(data []byte) (int, error) {
	const limit = 64 << 10
	o.mu.Lock()
	if o.kept = append(o.kept, data...); len(o.kept) > 2*limit {
		o.kept = append(o.kept[:0], o.kept[len(o.kept)-limit:]...)
	}
	lines := o.split(data)
	panics := ""
	for _, line := range lines {
		if !o.seen && strings.Contains(line, observedPanic) {
			panics, o.seen = loggedPanic(line), true
		}
	}
	o.mu.Unlock()
	if panics != "" && o.recovered != nil {
		o.recovered(panics)
	}
	for _, line := range lines {
		if id, text, ok := reconcileError(line); ok && o.failed != nil {
			o.failed(id, text)
		}
	}
	return len(data), nil
}

// split returns the lines that data completes.
func (o *output) split(data []byte) (lines []string) {
	for part := range bytes.Lines(data) {
		if len(o.line) < maxLine {
			o.line = append(o.line, part...)
		}
		if part[len(part)-1] == '\n' {
			lines = append(lines, string(bytes.TrimSpace(o.line)))
			o.line = o.line[:0]
		}
	}
	return lines
}

// reconcileError returns the controller and the object of a line that reports the error of a
// reconcile, and the error. The line is one of controller-runtime or Kelson's library: it has the
// attributes controller, name, perhaps namespace, and err or error, as JSON at its end, or as
// NAME=VALUE. Before controller-runtime 0.12, "reconciler kind" is in place of controller, and
// before 0.6, request in place of name and namespace.
func reconcileError(line string) (id, text string, ok bool) {
	attributes, isJSON := attributesIn(line)
	if !isJSON {
		for _, m := range attribute.FindAllStringSubmatch(line, -1) {
			value := m[2]
			if unquoted, err := strconv.Unquote(value); err == nil {
				value = unquoted
			}
			attributes[m[1]] = value
		}
	}
	get := func(name string) string { value, _ := attributes[name].(string); return value }
	text = cmp.Or(get("error"), get("err"))
	controller := cmp.Or(get("controller"), strings.ToLower(get("reconciler kind")))
	object := get("request")
	if get("name") != "" {
		object = qualified(get("namespace"), get("name"))
	}
	if text == "" || controller == "" || object == "" {
		return "", "", false
	}
	return controller + " " + object, text, true
}

// attributesIn returns the attributes that are a JSON object at the end of a line.
func attributesIn(line string) (attributes map[string]any, isJSON bool) {
	attributes = map[string]any{}
	at := strings.IndexByte(line, '{')
	if at < 0 || !strings.HasSuffix(line, "}") {
		return attributes, false
	}
	if json.Unmarshal([]byte(line[at:]), &attributes) != nil {
		clear(attributes)
	}
	return attributes, true
}

// loggedPanic returns the value of a panic and where it happened, or the beginning of the line if
// that has no attributes for these.
func loggedPanic(line string) string {
	const width = 300
	attributes, _ := attributesIn(line)
	value, _ := attributes["panic"].(string)
	stack, _ := attributes["stacktrace"].(string)
	if value == "" {
		_, text, _ := strings.Cut(line, observedPanic)
		return "panic" + text[:min(len(text), width)]
	}
	return panicDetail(&reconcile.PanicError{Value: value, Stack: []byte(stack)})
}

var attribute = regexp.MustCompile(`(?:^| )(\w+)=("(?:[^"\\]|\\.)*"|\S*)`)

// observedPanic is the text with which client-go and controller-runtime log panics from which they
// recover.
const observedPanic = "Observed a panic"

// all returns what is kept.
func (o *output) all() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.kept)
}

// tail returns the last lines.
func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	const lines, width = 12, 300
	all := strings.Split(strings.TrimSpace(string(o.kept)), "\n")
	all = all[max(0, len(all)-lines):]
	for i, line := range all {
		if len(line) > width {
			all[i] = line[:width] + "…"
		}
	}
	return strings.Join(all, "\n")
}

// goPanic matches the message of a Go program that ends because of a panic.
var goPanic = regexp.MustCompile(`(?m)^(panic: .*)\n`)

// panicked returns the panic that has ended the program, and where it happened; "" for none.
func (o *output) panicked() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := goPanic.FindSubmatchIndex(o.kept)
	if at == nil {
		return ""
	}
	message, stack := string(o.kept[at[2]:at[3]]), string(o.kept[at[1]:])
	if _, first, ok := strings.Cut(stack, "\ngoroutine "); ok {
		stack, _, _ = strings.Cut(first, "\n\n") // the stacks of other goroutines follow
	}
	// A panic that was raised again has several frames of panic. The last one is the oldest.
	if again := strings.LastIndex(stack, "\npanic("); again >= 0 {
		stack = stack[again:]
	}
	return message + placeIn(stack)
}

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"kelson.dev/apiserver/serving/hijack"
)

// streamIdle is how long a stream may be idle. It is the kubelet's default.
const streamIdle = 4 * time.Hour

// ServeHTTP serves the part of a kubelet's API that API servers call. It does not authorize
// requests: only the API server, which authorizes them, may call it.
//
//	GET  /healthz                                 ok
//	GET  /pods                                    the node's pods, as a PodList
//	GET  /containerLogs/NAMESPACE/POD/CONTAINER   the options of pods/log as its query
//	POST /exec/NAMESPACE/POD/CONTAINER            over SPDY or WebSocket: command, input, output, error, tty
//	POST /attach/NAMESPACE/POD/CONTAINER          over SPDY or WebSocket: input, output, error, tty
//	POST /portForward/NAMESPACE/POD               over SPDY or WebSocket
func (a *Agent) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w = hijack.Writer(w)
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	switch what := parts[0]; {
	case len(parts) == 1 && what == "healthz":
		_, _ = io.WriteString(w, "ok")
	case len(parts) == 1 && (what == "pods" || what == "runningpods"):
		a.servePods(w)
	case len(parts) == 3 && what == "portForward":
		a.servePortForward(w, req, parts[1], parts[2])
	case len(parts) == 4 && (what == "exec" || what == "attach" || what == "containerLogs"):
		worker := a.workerOf(parts[1], parts[2])
		if worker == nil {
			http.Error(w, "pod does not exist", http.StatusNotFound)
			return
		}
		if what == "containerLogs" {
			a.serveLogs(w, req, worker, parts[3])
		} else {
			a.serveCommand(w, req, worker, what, parts[3])
		}
	default:
		http.Error(w, "404 page not found", http.StatusNotFound)
	}
}

// workerOf returns the worker of a pod by name. If two pods had the name, it returns the worker of
// the newer one.
func (a *Agent) workerOf(namespace, name string) (found *worker) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var created metav1.Time
	for _, w := range a.workers {
		w.mu.Lock()
		pod := w.newest
		w.mu.Unlock()
		if pod.Namespace == namespace && pod.Name == name && (found == nil || created.Before(&pod.CreationTimestamp)) {
			found, created = w, pod.CreationTimestamp
		}
	}
	return found
}

func (a *Agent) servePods(w http.ResponseWriter) {
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{}}
	a.mu.Lock()
	for _, worker := range a.workers {
		worker.mu.Lock()
		list.Items = append(list.Items, *worker.newest)
		worker.mu.Unlock()
	}
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}

// serveLogs serves a container's log. With the option follow, it continues until the container
// ends.
func (a *Agent) serveLogs(w http.ResponseWriter, req *http.Request, worker *worker, container string) {
	opts, err := logOptions(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	opts.Container = container
	worker.mu.Lock()
	pod := worker.newest
	worker.mu.Unlock()
	log, err := a.Logs(req.Context(), pod, opts)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	defer log.Close()
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.Copy(flushing{w}, log) // the client gets an incomplete log
}

// flushing flushes after each write.
type flushing struct{ http.ResponseWriter }

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	if err == nil {
		err = http.NewResponseController(f.ResponseWriter).Flush()
	}
	return n, err
}

func logOptions(req *http.Request) (*corev1.PodLogOptions, error) {
	opts := &corev1.PodLogOptions{}
	for name, into := range map[string]*bool{"follow": &opts.Follow, "previous": &opts.Previous,
		"timestamps": &opts.Timestamps} {
		*into = req.FormValue(name) == "true"
	}
	for name, into := range map[string]**int64{"sinceSeconds": &opts.SinceSeconds, "tailLines": &opts.TailLines,
		"limitBytes": &opts.LimitBytes} {
		if text := req.FormValue(name); text != "" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("unable to decode query: %s: %w", name, err)
			}
			*into = &n
		}
	}
	if text := req.FormValue("sinceTime"); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, fmt.Errorf("unable to decode query: sinceTime: %w", err)
		}
		since := metav1.NewTime(at)
		opts.SinceTime = &since
	}
	if text := req.FormValue("stream"); text != "" {
		opts.Stream = &text
	}
	return opts, nil
}

// serveCommand runs a command in a container, or attaches to the container.
func (a *Agent) serveCommand(w http.ResponseWriter, req *http.Request, worker *worker, what, name string) {
	opts, err := remotecommand.NewOptions(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c, err := worker.runningContainer(name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	session := &session{container: c, opts: opts, runtime: a.config.Runtime.Info().Name}
	if what == "attach" {
		remotecommand.ServeAttach(w, req, session, "", "", name, opts, streamIdle,
			remotecommand.DefaultStreamCreationTimeout,
			remotecommand.SupportedStreamingProtocols)
		return
	}
	remotecommand.ServeExec(w, req, session, "", "", name, req.URL.Query()["command"], opts, streamIdle,
		remotecommand.DefaultStreamCreationTimeout,
		remotecommand.SupportedStreamingProtocols)
}

// session implements the streaming library's callbacks for one exec or attach request.
type session struct {
	container Container
	opts      *remotecommand.Options
	runtime   string
}

func (s *session) ExecInContainer(ctx context.Context, _, _, name string, command []string, in io.Reader,
	out, errs io.WriteCloser, tty bool,
	resize <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	executor, ok := s.container.(Executor)
	if !ok {
		return fmt.Errorf("the %s runtime can't run a command in container %q", s.runtime, name)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return executor.Exec(ctx, command, s.streams(ctx, in, out, errs, tty, resize))
}

func (s *session) AttachContainer(ctx context.Context, _, _, name string, in io.Reader, out, errs io.WriteCloser,
	tty bool,
	resize <-chan remotecommand.TerminalSize,
) error {
	attacher, ok := s.container.(Attacher)
	if !ok {
		return fmt.Errorf("the %s runtime can't attach to container %q", s.runtime, name)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return attacher.Attach(ctx, s.streams(ctx, in, out, errs, tty, resize))
}

// streams returns the requested streams. The library may also pass streams that were not requested.
func (s *session) streams(ctx context.Context, in io.Reader, out, errs io.WriteCloser, tty bool,
	resize <-chan remotecommand.TerminalSize) Streams {
	all := Streams{TTY: tty}
	if s.opts.Stdin {
		all.Stdin = in
	}
	if s.opts.Stdout {
		all.Stdout = out
	}
	if s.opts.Stderr {
		all.Stderr = errs
	}
	if resize != nil {
		sizes := make(chan Size)
		all.Resize = sizes
		go func() {
			defer close(sizes)
			for size := range resize {
				select {
				case sizes <- Size{size.Width, size.Height}:
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	return all
}

func (a *Agent) servePortForward(w http.ResponseWriter, req *http.Request, namespace, name string) {
	worker := a.workerOf(namespace, name)
	if worker == nil {
		http.Error(w, "pod does not exist", http.StatusNotFound)
		return
	}
	opts, err := portforward.NewV4Options(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	worker.mu.Lock()
	pod := worker.newest
	worker.mu.Unlock()
	portforward.ServePortForward(w, req, &forwarder{a, pod, req.Context()}, name, string(pod.UID), opts, streamIdle,
		remotecommand.DefaultStreamCreationTimeout,
		portforward.SupportedProtocols)
}

// forwarder connects the streams of one port-forward request to ports of a pod, until the request
// ends.
type forwarder struct {
	agent *Agent
	pod   *corev1.Pod
	ctx   context.Context // the context that the library passes never ends
}

func (f *forwarder) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	conn, err := f.agent.Dial(f.ctx, f.pod, uint16(port))
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(f.ctx, func() { conn.Close() })
	defer stop()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.Copy(conn, stream)
		if half, ok := conn.(*net.TCPConn); ok {
			_ = half.CloseWrite() // the server may still send data
		}
	}()
	if _, err := io.Copy(stream, conn); err != nil && f.ctx.Err() == nil {
		return err
	}
	stream.Close()
	conn.Close()
	return nil
}

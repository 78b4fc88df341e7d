package devlog

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/apiserver/inprocess"
	"kelson.dev/apiserver/store"
)

// Following logs everything that happens on a control plane until it is stopped.
type Following struct {
	log       *Log
	transport http.RoundTripper

	cancel context.CancelFunc
	events sync.WaitGroup
	logs   sync.WaitGroup
	seen   map[container]bool
}

// container is one run of a container.
type container struct {
	uid      string
	name     string
	restarts int32
}

// logGrace is how long Stop waits for the rest of the output of containers.
const logGrace = time.Second

// Follow starts to log writes and the output of containers to log. It reads that output through
// transport.
func Follow(ctx context.Context, log *Log, s *store.Store, transport http.RoundTripper) *Following {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &Following{log: log, transport: transport, cancel: cancel, seen: map[container]bool{}}
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	f.events.Go(func() {
		defer begin()
		_ = s.Follow(ctx, "", func(*store.Snapshot) { begin() }, func(events []*store.Event) {
			for _, e := range events {
				log.Event(e)
				if e.Object.Key.Resource == "pods" && e.Type != store.Deleted {
					f.output(ctx, e.Object)
				}
			}
		})
	})
	<-begun
	return f
}

// Stop stops following and returns when all lines are written.
func (f *Following) Stop() {
	done := make(chan struct{})
	go func() { f.logs.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(logGrace):
	}
	f.cancel()
	f.events.Wait()
	f.logs.Wait()
}

// output follows the output of the started containers of a pod.
func (f *Following) output(ctx context.Context, obj *store.Object) {
	var pod corev1.Pod
	if json.Unmarshal(obj.Data, &pod) != nil {
		return
	}
	all := append(append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...),
		pod.Status.ContainerStatuses...)
	for _, status := range all {
		run := container{string(pod.UID), status.Name, status.RestartCount}
		if f.seen[run] || status.State.Running == nil && status.State.Terminated == nil {
			continue
		}
		f.seen[run] = true
		subject := "pod/" + pod.Name
		if len(all) > 1 {
			subject += "/" + status.Name
		}
		f.logs.Go(func() {
			query := url.Values{"container": {status.Name}, "follow": {"true"}}
			path := "/api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name + "/log?" + query.Encode()
			stream, err := inprocess.Call{Path: path}.Open(ctx, f.transport)
			if err != nil {
				return
			}
			defer stream.Close()
			out := f.log.Output(subject)
			_, _ = io.Copy(out, stream)
			_ = out.Close()
		})
	}
}

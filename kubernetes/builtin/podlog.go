package builtin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	genericrest "k8s.io/apiserver/pkg/registry/generic/rest"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/client"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"kelson.dev/apiserver/resource"
)

// podLog serves pods/log. It validates the options before it reads the pod, as Kubernetes does. It
// opens the log before it starts the response, so that it can return an error as a Status. Then it
// sends each chunk as soon as it has read it.
func (k *kinds) podLog(ctx context.Context, req *resource.Request, _ runtime.Object) (http.Handler, error) {
	opts := &core.PodLogOptions{}
	if err := legacyscheme.ParameterCodec.DecodeParameters(req.Query, corev1.SchemeGroupVersion, opts); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	splits := utilfeature.DefaultFeatureGate.Enabled(features.PodLogsQuerySplitStreams)
	if splits && opts.Stream == nil {
		stream := core.LogStreamAll
		opts.Stream = &stream
	}
	if errs := validation.ValidatePodLogOptions(opts, splits); len(errs) > 0 {
		return nil, apierrors.NewInvalid(core.Kind("PodLogOptions"), req.Name, errs)
	}
	obj, err := req.Objects.Get(ctx, req.Resource, req.Namespace, req.Name)
	if err != nil {
		return nil, err
	}
	p, ok := obj.(*core.Pod)
	if !ok {
		return nil, fmt.Errorf("read log: not a pod: %T", obj)
	}
	container, err := logContainer(ctx, p, opts)
	if err != nil {
		return nil, err
	}
	if container == "" { // not scheduled yet: there is no log
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
		}), nil
	}
	opts.Container = container
	if _, ok := k.node(p.Spec.NodeName); k.cfg.Logs == nil || k.cfg.Node != nil && !ok {
		return k.remoteLog(ctx, p, opts)
	}
	versioned := &corev1.Pod{}
	if err := Scheme().Convert(p.DeepCopy(), versioned, nil); err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	versionedOpts := &corev1.PodLogOptions{}
	if err := Scheme().Convert(opts, versionedOpts, nil); err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	log, err := k.cfg.Logs(ctx, versioned, versionedOpts)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { stream(w, req, log) }), nil
}

// remoteLog opens a log at the kubelet of a node that does not run in this process.
func (k *kinds) remoteLog(ctx context.Context, p *core.Pod, opts *core.PodLogOptions) (http.Handler, error) {
	location, transport, err := pod.LogLocation(ctx, onePod{p}, kubelets{k}, p.Name, opts)
	if err != nil {
		return nil, err
	}
	source := &genericrest.LocationStreamer{
		Location: location, Transport: transport, RedirectChecker: genericrest.PreventRedirects,
		ResponseChecker: genericrest.NewGenericHttpResponseChecker(core.Resource("pods/log"), p.Name),
	}
	log, _, _, err := source.InputStream(ctx, "", "")
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { stream(w, req, log) }), nil
}

// stream copies a log to the client in chunks, until the log ends or the client disconnects.
func stream(w http.ResponseWriter, req *http.Request, log io.ReadCloser) {
	if wsstream.IsWebSocketRequest(req) {
		streamMessages(w, req, log)
		return
	}
	defer log.Close()
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w).Flush
	if err := flush(); errors.Is(err, http.ErrNotSupported) {
		flush = func() error { return nil }
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := log.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return
			}
			if flush() != nil {
				return
			}
		}
		if err != nil {
			// The status code has been sent, so an error can only end the response.
			return
		}
	}
}

// logContainer validates the container of the options, or selects the default one. It returns ""
// for a pod without a node. It calls Kubernetes' function that locates a log on a kubelet, to get
// the same rules and messages. The last segment of the location is the container.
func logContainer(ctx context.Context, p *core.Pod, opts *core.PodLogOptions) (string, error) {
	location, _, err := pod.LogLocation(ctx, onePod{p}, nowhere{}, p.Name, opts)
	if err != nil || location == nil {
		return "", err
	}
	return path.Base(location.Path), nil
}

// onePod implements the getter that Kubernetes' function needs, for one pod.
type onePod struct{ pod *core.Pod }

func (o onePod) Get(context.Context, string, *metav1.GetOptions) (runtime.Object, error) {
	return o.pod, nil
}

// nowhere returns an empty address of a kubelet; the caller does not use the address.
type nowhere struct{}

func (nowhere) GetConnectionInfo(context.Context, types.NodeName) (*client.ConnectionInfo, error) {
	return &client.ConnectionInfo{}, nil
}

package aggregator

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	proxyutil "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/transport"
	"k8s.io/streaming/pkg/httpstream"

	"kelson.dev/apiserver/flowcontrol"
	"kelson.dev/apiserver/rest/wire"
)

// Handler returns a handler that passes the requests on group versions of backends to them, and all
// others to next. It must run behind the request pipeline, which authenticates and authorizes.
func (a *Aggregator) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		routes := a.routes.Load()
		if routes == nil {
			next.ServeHTTP(w, req)
			return
		}
		if b := (*routes)[requested(req)]; b != nil {
			b.ServeHTTP(w, req)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// requested returns the group version of a request for resources or for the document about a group
// version. All paths below /api are of the core group. The result is zero for other paths.
func requested(req *http.Request) schema.GroupVersion {
	if info, ok := request.RequestInfoFrom(req.Context()); ok && info.IsResourceRequest {
		return schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	}
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	switch {
	case parts[0] == "api":
		return schema.GroupVersion{Version: "v1"}
	case parts[0] == "apis" && len(parts) == 3:
		return schema.GroupVersion{Group: parts[1], Version: parts[2]}
	}
	return schema.GroupVersion{}
}

// ServeHTTP passes a request to the backend, as the request's user.
func (b *backend) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !b.available.Load() {
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return
	}
	if b.broken != nil {
		http.Error(w, b.broken.Error(), http.StatusInternalServerError)
		return
	}
	u, ok := request.UserFrom(req.Context())
	if !ok {
		http.Error(w, "missing user", http.StatusInternalServerError)
		return
	}
	at, err := b.cfg.Services.ResolveEndpoint(b.spec.Service.Namespace, b.spec.Service.Name, b.spec.Service.port())
	if err != nil {
		b.cfg.Log.Warn("resolve Service of APIService", "apiservice", b.name, "err", err)
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return
	}
	// The path must not have a second, escaped form that the backend might read differently from
	// the authorizer.
	at.Path, at.RawQuery = req.URL.Path, req.URL.Query().Encode()
	out, cancel := proxyutil.NewRequestForProxy(at, req)
	defer cancel()
	x := &exchange{req: req, user: u, header: w.Header()}
	ctx := out.Context()
	if _, short := ctx.Deadline(); short && httpstream.IsUpgradeRequest(req) {
		var end func()
		ctx, end = x.untilSwitched(ctx, b.lifetime)
		defer end()
	}
	utilflowcontrol.RequestDelegated(req.Context())
	defer func() {
		// The proxy panics if it cannot pass on all of a response. If the client has disconnected,
		// that is not a failure.
		if p := recover(); p != nil && (p != http.ErrAbortHandler ||
			!errors.Is(req.Context().Err(), context.Canceled)) {
			panic(p)
		}
	}()
	b.proxy.ServeHTTP(w, out.WithContext(context.WithValue(ctx, exchangeKey{}, x)))
}

// exchange is a request on its way to a backend.
type exchange struct {
	req      *http.Request // the request that arrived
	user     user.Info     // its user
	header   http.Header   // the response header that the pipeline has set
	switched func() bool   // called when the protocol is switched; nil: not requested
}

// merge keeps one value of each header that both servers set: the backend's Cache-Control, and this
// server's value of the others.
func (x *exchange) merge(resp http.Header) {
	for name := range x.header {
		switch {
		case name == "Cache-Control" && resp.Get(name) != "":
			x.header.Del(name)
		case name == "Audit-Id", strings.HasPrefix(name, "X-Kubernetes-Pf-"):
			resp.Del(name)
		}
	}
}

// exchangeKey is the context key of the exchange in the request to the backend.
type exchangeKey struct{}

func exchangeOf(out *http.Request) *exchange { return out.Context().Value(exchangeKey{}).(*exchange) }

// untilSwitched returns a context that ends with ctx until the protocol is switched, and after that
// with lifetime. So the connection outlives the deadline of a short request, as in kube-apiserver.
// The caller must call end.
func (x *exchange) untilSwitched(ctx, lifetime context.Context) (_ context.Context, end func()) {
	switching, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	x.switched = context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	stop := context.AfterFunc(lifetime, func() { cancel(context.Cause(lifetime)) })
	return switching, func() {
		x.switched()
		stop()
		cancel(nil)
	}
}

// dropUser removes headers that name users to a proxy's backend. SetAuthProxyHeaders removes the
// X-Remote ones.
func (b *backend) dropUser(header http.Header) {
	for _, name := range b.cfg.UserHeaders {
		header.Del(name)
	}
	for _, prefix := range b.cfg.UserPrefixes {
		for name := range header {
			if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
				delete(header, name)
			}
		}
	}
}

// redirected is kube-aggregator's response to redirects.
const redirected = "the backend attempted to redirect this request, which is not permitted"

func (b *backend) newProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport: byProtocol{b},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			r.SetXForwarded()
			// kube-aggregator sets the same headers. Requests in process have no connection.
			r.Out.Header.Set("X-Forwarded-Proto", "https")
			r.Out.Header.Set("X-Forwarded-Uri", r.In.URL.EscapedPath())
			// These come last: the proxy has already removed the headers that the client names in
			// the header Connection.
			b.dropUser(r.Out.Header)
			u := exchangeOf(r.Out).user
			transport.SetAuthProxyHeaders(r.Out, u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra())
		},
		ModifyResponse: func(resp *http.Response) error {
			x := exchangeOf(resp.Request)
			x.merge(resp.Header)
			if resp.StatusCode == http.StatusSwitchingProtocols && x.switched != nil {
				x.switched()
			}
			if !b.cfg.ForwardRedirects && resp.StatusCode >= 300 && resp.StatusCode <= 399 &&
				resp.Header.Get("Location") != "" {
				resp.Body.Close()
				resp.StatusCode, resp.Status = http.StatusBadGateway, ""
				resp.Header = http.Header{}
				resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(redirected)), int64(len(redirected))
			}
			return nil
		},
		ErrorHandler: b.fail,
		ErrorLog:     log.New(io.Discard, "", 0), // responses that clients or backends abort
		BufferPool:   &buffers,
	}
}

// fail answers a request that the backend did not answer.
func (b *backend) fail(w http.ResponseWriter, out *http.Request, err error) {
	req := exchangeOf(out).req
	if errors.Is(req.Context().Err(), context.DeadlineExceeded) {
		wire.Error(w, req, apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0))
		return
	}
	// The pipeline's errors come from reading the body.
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		wire.Error(w, req, err)
		return
	}
	http.Error(w, "error trying to reach service: "+err.Error(), http.StatusServiceUnavailable)
}

// byProtocol sends requests that may switch protocols over upgrades, and all others over the
// backend's connections. While the backend does not answer, the request occupies no seats.
type byProtocol struct{ *backend }

func (p byProtocol) RoundTrip(req *http.Request) (*http.Response, error) {
	defer flowcontrol.Wait(req.Context())()
	to := p.connections
	if httpstream.IsUpgradeRequest(req) {
		to = p.upgrades
	}
	return to.RoundTrip(req)
}

// buffers holds the buffers in which responses are copied.
var buffers bufferPool

type bufferPool struct{ sync.Pool }

const bufferSize = 32 << 10

func (p *bufferPool) Get() []byte {
	if buffer, ok := p.Pool.Get().(*[bufferSize]byte); ok {
		return buffer[:]
	}
	return make([]byte, bufferSize)
}

func (p *bufferPool) Put(buffer []byte) { p.Pool.Put((*[bufferSize]byte)(buffer)) }

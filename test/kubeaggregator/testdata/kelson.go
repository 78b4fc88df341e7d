package apiserver

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/transport"
	"k8s.io/component-base/tracing"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"

	"kelson.dev/apiserver/aggregator"
	"kelson.dev/apiserver/discovery"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/services"
	"kelson.dev/apiserver/store"
)

// world is an aggregator with its store.
type world struct {
	*store.Store
	*aggregator.Aggregator
	checked chan struct{} // receives an element when the aggregator has written a condition
}

func newWorld(cfg aggregator.Config) *world {
	st, err := store.Open(store.Config{})
	if err != nil {
		panic(err)
	}
	w := &world{Store: st, checked: make(chan struct{}, 100)}
	cfg.Store, cfg.Services, cfg.Client = st, services.New(services.Config{Store: st}), w
	w.Aggregator = aggregator.New(cfg)
	return w
}

// RoundTrip acts as the API server, to which the aggregator writes conditions.
func (w *world) RoundTrip(*http.Request) (*http.Response, error) {
	w.checked <- struct{}{}
	return httptest.NewRecorder().Result(), nil
}

func (w *world) put(resource, namespace, name string, object any) {
	data, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	key := store.Key{Resource: resource, Namespace: namespace, Name: name}
	if _, err := w.Commit(context.Background(), store.Op{Key: key, Data: data, Expect: store.AnyRevision}); err != nil {
		panic(err)
	}
}

func (w *world) register(service *apiregistration.APIService) {
	stored := service.DeepCopy()
	stored.Name = stored.Spec.Version + "." + stored.Spec.Group // some tests set no name
	w.put(aggregator.Resource, "", stored.Name, stored)
}

// The types and methods of handler_proxy.go.

type certKeyFunc func() ([]byte, []byte)

type proxyHandler struct {
	localDelegate              http.Handler
	proxyCurrentCertKeyContent certKeyFunc
	proxyTransportDial         *transport.DialHolder
	serviceResolver            ServiceResolver
	handlingInfo               atomic.Value
	rejectForwardingRedirects  bool
	tracerProvider             tracing.TracerProvider
	stop                       context.CancelFunc
}

type proxyHandlingInfo struct {
	local, serviceAvailable bool
	proxyRoundTripper       http.RoundTripper
	gv                      schema.GroupVersion
	handler                 http.Handler
}

// attempts is the number of connections that the aggregator opens to check a server.
const attempts = 5

// updateAPIService starts an aggregator with one APIService. Upstream's tests set whether the
// server is available, and some of their servers would fail a check. So the check gets no response
// here, and the condition in the APIService stays as the test set it.
func (r *proxyHandler) updateAPIService(service *apiregistration.APIService) {
	if r.stop != nil {
		r.stop()
	}
	cfg := aggregator.Config{ForwardRedirects: !r.rejectForwardingRedirects}
	if cert, key := r.proxyCurrentCertKeyContent(); len(cert) > 0 {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			panic(err)
		}
		cfg.ProxyClient = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	dial := new(net.Dialer).DialContext
	if r.proxyTransportDial != nil {
		dial = r.proxyTransportDial.Dial
	}
	var begun atomic.Int32
	checking := make(chan struct{})
	cfg.Dial = func(dialing context.Context, network, address string) (net.Conn, error) {
		n := begun.Add(1)
		if n == attempts {
			close(checking)
		}
		if n <= attempts {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return dial(dialing, network, address)
	}
	w := newWorld(cfg)
	service = service.DeepCopy()
	if service.Spec.Service.Name == "" { // validation would refuse such a reference
		service.Spec.Service.Namespace, service.Spec.Service.Name = "ns", "name"
	}
	ref := service.Spec.Service
	at, err := r.serviceResolver.ResolveEndpoint(ref.Namespace, ref.Name, *ref.Port)
	if err == nil {
		w.put(services.Services, ref.Namespace, ref.Name, map[string]any{
			"metadata": map[string]any{"name": ref.Name, "namespace": ref.Namespace, "annotations": map[string]string{services.URL: at.String()}},
			"spec":     map[string]any{"ports": []any{map[string]any{"port": *ref.Port}}},
		})
	}
	w.register(service)
	go func() { _ = w.Run(ctx) }()
	if err == nil {
		<-checking
	} else {
		<-w.checked // there is no Service
	}
	r.handlingInfo.Store(proxyHandlingInfo{
		gv: schema.GroupVersion{Group: service.Spec.Group, Version: service.Spec.Version}, handler: w.Handler(r.localDelegate),
	})
}

// ServeHTTP passes the request to the aggregator. Upstream's tests call a handler of one APIService
// with any path; the aggregator routes by the group version of the request.
func (r *proxyHandler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	info, ok := r.handlingInfo.Load().(proxyHandlingInfo)
	if !ok || info.handler == nil {
		r.localDelegate.ServeHTTP(w, req)
		return
	}
	as := &request.RequestInfo{IsResourceRequest: true, APIGroup: info.gv.Group, APIVersion: info.gv.Version, Path: req.URL.Path}
	info.handler.ServeHTTP(w, req.WithContext(request.WithRequestInfo(req.Context(), as)))
}

// responder exists only so that tests that are not run compile.
type responder struct{ w http.ResponseWriter }

func (r *responder) Object(int, runtime.Object) {}

func (r *responder) Error(http.ResponseWriter, *http.Request, error) {}

// The types and functions of handler_apis.go.

type apisHandler struct {
	codecs         serializer.CodecFactory
	lister         listers.APIServiceLister
	discoveryGroup metav1.APIGroup
}

type apiGroupHandler struct {
	codecs    serializer.CodecFactory
	groupName string
	lister    listers.APIServiceLister
	delegate  http.Handler
}

// discoveryGroup returns the discovery document that upstream's tests expect for the group of
// APIServices.
func discoveryGroup(enabled sets.String) metav1.APIGroup {
	group := metav1.APIGroup{Name: apiregistration.GroupName}
	for _, version := range []string{"v1", "v1beta1"} {
		if enabled.Has(version) {
			group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: group.Name + "/" + version, Version: version})
		}
	}
	group.PreferredVersion = group.Versions[0]
	return group
}

func (r *apisHandler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	registry := resource.NewRegistry()
	own := &resource.Resource{Group: r.discoveryGroup.Name, Plural: "apiservices", Singular: "apiservice", Kind: "APIService", ListKind: "APIServiceList"}
	for _, v := range r.discoveryGroup.Versions {
		own.Versions = append(own.Versions, resource.Version{Name: v.Version})
	}
	own.StorageVersion = own.Versions[0].Name
	registry.Put(own)
	serveGroups(registry, r.lister, w, req)
}

func (r *apiGroupHandler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	answer := httptest.NewRecorder()
	serveGroups(resource.NewRegistry(), r.lister, answer, req)
	if answer.Code == http.StatusNotFound {
		r.delegate.ServeHTTP(w, req)
		return
	}
	w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// serveGroups serves the discovery of a registry and of APIServices.
func serveGroups(registry *resource.Registry, lister listers.APIServiceLister, w http.ResponseWriter, req *http.Request) {
	all, err := lister.List(labels.Everything())
	if err != nil {
		panic(err)
	}
	world := newWorld(aggregator.Config{})
	for _, service := range all {
		world.register(service)
	}
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	go func() { _ = world.Run(ctx) }()
	for {
		changes := world.Changes()
		if listed := world.Discovery(); len(all) == 0 || listed != nil && len(*listed) == len(all) {
			break
		}
		<-changes
	}
	discovery.New(discovery.Config{
		Registry: registry, Others: world.Discovery,
		Priorities: func(gv schema.GroupVersion) discovery.Priorities {
			if strings.HasSuffix(gv.Version, "beta1") {
				return discovery.Priorities{Group: 20000, Version: 9}
			}
			return discovery.Priorities{Group: 20000, Version: 15}
		},
	}).ServeHTTP(w, req)
}

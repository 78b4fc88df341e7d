package aggregator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/transport"

	"kelson.dev/apiserver/services"
	"kelson.dev/apiserver/store/derived"
)

const (
	// attempts is how many requests a check sends at once. The backend is available if one of them
	// succeeds, because they may reach different endpoints.
	attempts = 5
	// checkTimeout bounds a check.
	checkTimeout = 5 * time.Second
	// maxDiscovery bounds the document about a group version, in bytes; a hundred resources take
	// about 50,000.
	maxDiscovery = 1 << 20
)

// finding is the result of a check.
type finding struct {
	condition condition
	resources []apidiscoveryv2.APIResourceDiscovery // nil: the backend did not list resources
	// retry requests another check soon. If it is false, the next check follows an event.
	retry bool
}

func (b *backend) unavailable(status, reason, format string, args ...any) finding {
	return finding{condition: condition{Type: available, Status: status, Reason: reason,
		Message: fmt.Sprintf(format, args...)}}
}

// check determines whether the backend is available. Reasons and messages are those of
// kube-aggregator.
func (b *backend) check(ctx context.Context) finding {
	ref, sn := b.spec.Service, b.cfg.Store.Snapshot()
	service, err := derived.Get[corev1.Service](sn, services.Services, ref.Namespace, ref.Name)
	switch {
	case apierrors.IsNotFound(err):
		return b.unavailable(isFalse, "ServiceNotFound", "service/%s in %q is not present", ref.Name, ref.Namespace)
	case err != nil:
		return b.unavailable(isUnknown, "ServiceAccessError", "service/%s in %q cannot be checked due to: %v", ref.Name,
			ref.Namespace, err)
	}
	if clusterIP(service) {
		port := services.Port(service, ref.port())
		if port == nil {
			return b.unavailable(isFalse, "ServicePortError", "service/%s in %q is not listening on port %d", ref.Name,
				ref.Namespace, ref.port())
		}
		slices, err := services.Slices(sn, ref.Namespace, ref.Name)
		switch {
		case err != nil:
			return b.unavailable(isUnknown, "EndpointsAccessError", "service/%s in %q cannot be checked due to: %v",
				ref.Name, ref.Namespace, err)
		case len(slices) == 0:
			return b.unavailable(isFalse, "EndpointsNotFound", "cannot find endpointslices for service/%s in %q",
				ref.Name, ref.Namespace)
		case !hasEndpoint(port.Name, slices):
			return b.unavailable(isFalse, "MissingEndpoints",
				"endpointslices for service/%s in %q have no addresses with port name %q",
				ref.Name, ref.Namespace, port.Name)
		}
	}
	resources, err := b.discover(ctx)
	if err != nil {
		f := b.unavailable(isFalse, "FailedDiscoveryCheck", "%s", err)
		f.retry = true
		return f
	}
	return finding{condition: condition{Type: available, Status: isTrue, Reason: "Passed",
		Message: "all checks passed"}, resources: resources}
}

func hasEndpoint(portName string, all []*discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(all, func(s *discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool {
			return e.Conditions.Ready == nil || *e.Conditions.Ready
		}) &&
			slices.ContainsFunc(s.Ports, func(p discoveryv1.EndpointPort) bool {
				return p.Name != nil && *p.Name == portName && p.Port != nil
			})
	})
}

// discover gets the resources of the group version from the backend.
func (b *backend) discover(ctx context.Context) ([]apidiscoveryv2.APIResourceDiscovery, error) {
	if b.broken != nil {
		return nil, b.broken
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	type answer struct {
		resources []apidiscoveryv2.APIResourceDiscovery
		err       error
	}
	answers := make(chan answer, attempts)
	for range attempts {
		running.Go(func() {
			resources, err := b.attempt(ctx)
			answers <- answer{resources, err}
		})
	}
	var last error
	for range attempts {
		a := <-answers
		if a.err == nil {
			return a.resources, nil
		}
		last = a.err
	}
	b.connections.CloseIdleConnections()
	return nil, last
}

func (b *backend) attempt(ctx context.Context) ([]apidiscoveryv2.APIResourceDiscovery, error) {
	at, err := b.cfg.Services.ResolveEndpoint(b.spec.Service.Namespace, b.spec.Service.Name, b.spec.Service.port())
	if err != nil {
		return nil, err
	}
	at.Path = root(b.gv)
	resp, body, err := b.get(ctx, at.String(), checkTimeout, maxDiscovery,
		identity{"system:kube-aggregator", "system:masters"}, nil)
	switch {
	case err != nil:
		return nil, fmt.Errorf("failing or missing response from %v: %w", at, err)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, fmt.Errorf("failing or missing response from %v: bad status from %v: %d", at, at, resp.StatusCode)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(body, &list); err != nil || list.APIResources == nil {
		b.cfg.Log.Warn("backend does not list its resources", "apiservice", b.name, "url", at.String(), "err", err)
		return nil, nil // the backend still counts as available, as in kube-aggregator
	}
	if list.GroupVersion != "" && list.GroupVersion != b.gv.String() {
		return nil, fmt.Errorf("failing or missing response from %v: it describes group version %q instead of %q", at,
			list.GroupVersion, b.gv)
	}
	return aggregated(b.gv, list.APIResources), nil
}

// identity is the user, with its group, that the aggregator names when it reads documents.
type identity struct{ user, group string }

// errTooLarge reports a document that is larger than allowed.
var errTooLarge = errors.New("the response is too large")

// get sends a GET request to the backend as a user of this server and reads at most limit bytes of
// the response.
func (b *backend) get(ctx context.Context, url string, timeout time.Duration, limit int64, as identity,
	header http.Header) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	var groups []string
	if as.group != "" {
		groups = []string{as.group}
	}
	transport.SetAuthProxyHeaders(req, as.user, "", groups, nil)
	client := http.Client{
		Transport: b.connections, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = fmt.Errorf("%w: limit is %d bytes", errTooLarge, limit)
	}
	return resp, body, err
}

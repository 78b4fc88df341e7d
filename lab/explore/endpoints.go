package explore

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// sortEndpoints sorts the endpoints in the write of an EndpointSlice. Kubernetes' controller takes
// them from a Go map, so their order would otherwise differ between equal runs.
func sortEndpoints(r *http.Request) error {
	if r.Body == nil || !strings.Contains(r.URL.Path, "/endpointslices") {
		return nil
	}
	data, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		return err
	}
	if sorted, ok := withSortedEndpoints(data, r.Header.Get("Content-Type")); ok {
		data = sorted
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	return nil
}

// withSortedEndpoints returns false for bodies other than an EndpointSlice, such as a patch.
func withSortedEndpoints(data []byte, mime string) ([]byte, bool) {
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		return nil, false
	}
	one, ok := obj.(*discoveryv1.EndpointSlice)
	info, known := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mime)
	if !ok || !known {
		return nil, false
	}
	slices.SortStableFunc(one.Endpoints, func(a, b discoveryv1.Endpoint) int {
		return cmp.Compare(fmt.Sprint(a.Addresses), fmt.Sprint(b.Addresses))
	})
	data, err = runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, discoveryv1.SchemeGroupVersion), one)
	return data, err == nil
}

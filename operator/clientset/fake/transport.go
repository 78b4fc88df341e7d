package fake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/testing"
)

// transport turns requests into actions.
type transport struct {
	fake   *testing.Fake
	scheme *runtime.Scheme
	kinds  []Kind
}

// call is one request.
type call struct {
	*transport
	Kind
	namespace, name, subresource string
	query                        url.Values
}

// RoundTrip executes a request.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		defer r.Body.Close()
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	c, err := t.parse(r.URL)
	if err != nil {
		return answer(r, failure(err))
	}
	if r.Method == http.MethodGet && c.query.Get("watch") != "" && c.query.Get("watch") != "false" {
		w, opts, err := c.watch()
		if err != nil {
			return answer(r, failure(err))
		}
		return respond(r, http.StatusOK, newStream(r.Context(), t, w, opts)), nil
	}
	obj, err := c.do(r.Method, types.PatchType(strings.TrimSpace(r.Header.Get("Content-Type"))), body)
	if err != nil {
		return answer(r, failure(err))
	}
	return answer(r, obj)
}

// parse returns the call that a request makes.
func (t *transport) parse(u *url.URL) (*call, error) {
	c := &call{transport: t, query: u.Query()}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	var group, version string
	switch {
	case parts[0] == "apis" && len(parts) > 3:
		group, version, parts = parts[1], parts[2], parts[3:]
	case parts[0] == "api" && len(parts) > 2:
		version, parts = parts[1], parts[2:]
	default:
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "",
			"a fake clientset has nothing at "+u.Path, 0, false)
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		c.namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 1 {
		c.name, c.subresource = parts[1], strings.Join(parts[2:], "/")
	}
	for _, k := range t.kinds {
		if k.Group == group && k.Version == version && k.Resource == parts[0] {
			c.Kind = k
			return c, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: group, Resource: parts[0]}, c.name)
}

// do invokes the action of a call.
func (c *call) do(method string, patch types.PatchType, body []byte) (runtime.Object, error) {
	empty, err := c.scheme.New(c.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	var action testing.Action
	switch {
	case method == http.MethodGet && c.name == "":
		return c.list()
	case method == http.MethodGet:
		var opts metav1.GetOptions
		if err := metav1.Convert_url_Values_To_v1_GetOptions(&c.query, &opts, nil); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		action = testing.NewGetSubresourceActionWithOptions(c.resource(), c.namespace, c.subresource, c.name, opts)
	case method == http.MethodPost:
		var opts metav1.CreateOptions
		obj, err := c.decode(body)
		if err = errors.Join(err, metav1.Convert_url_Values_To_v1_CreateOptions(&c.query, &opts, nil)); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		action = testing.NewCreateActionWithOptions(c.resource(), c.namespace, obj, opts)
		if c.subresource != "" {
			action = testing.NewCreateSubresourceActionWithOptions(c.resource(), c.name, c.subresource, c.namespace,
				obj, opts)
		}
	case method == http.MethodPut:
		var opts metav1.UpdateOptions
		obj, err := c.decode(body)
		if err = errors.Join(err, metav1.Convert_url_Values_To_v1_UpdateOptions(&c.query, &opts, nil)); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		action = testing.NewUpdateSubresourceActionWithOptions(c.resource(), c.subresource, c.namespace, obj, opts)
	case method == http.MethodPatch:
		var opts metav1.PatchOptions
		if err := metav1.Convert_url_Values_To_v1_PatchOptions(&c.query, &opts, nil); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		var subresources []string
		if c.subresource != "" {
			subresources = []string{c.subresource}
		}
		action = testing.NewPatchSubresourceActionWithOptions(c.resource(), c.namespace, c.name, patch, body, opts,
			subresources...)
	case method == http.MethodDelete:
		var opts metav1.DeleteOptions
		if len(body) > 0 {
			if err := json.Unmarshal(body, &opts); err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
		}
		action = testing.NewDeleteActionWithOptions(c.resource(), c.namespace, c.name, opts)
		if c.name == "" {
			list, err := c.listOptions()
			if err != nil {
				return nil, err
			}
			action = testing.NewDeleteCollectionActionWithOptions(c.resource(), c.namespace, opts, list)
		}
		if _, err := c.fake.Invokes(action, empty); err != nil {
			return nil, err
		}
		return &metav1.Status{TypeMeta: statusKind, Status: metav1.StatusSuccess}, nil
	default:
		return nil, apierrors.NewMethodNotSupported(c.resource().GroupResource(), method)
	}
	obj, err := c.fake.Invokes(action, empty)
	if err == nil && obj != nil {
		obj = obj.DeepCopyObject()
		c.identify(obj, "1")
	}
	return obj, err
}

// list returns a list of the objects that the selector matches. The tracker does not apply
// selectors.
func (c *call) list() (runtime.Object, error) {
	opts, err := c.listOptions()
	if err != nil {
		return nil, err
	}
	kind := c.GroupVersionKind
	kind.Kind += "List"
	empty, err := c.scheme.New(kind)
	if err != nil {
		return nil, err
	}
	list, err := c.fake.Invokes(testing.NewListActionWithOptions(c.resource(), c.GroupVersionKind, c.namespace, opts),
		empty)
	if err != nil || list == nil {
		return list, err
	}
	list = list.DeepCopyObject()
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	version := "1"
	if m, err := meta.ListAccessor(list); err == nil && m.GetResourceVersion() != "" {
		version = m.GetResourceVersion()
	}
	c.identify(list, version)
	matched := make([]runtime.Object, 0, len(items))
	for _, item := range items {
		if matches(opts, item) {
			c.identify(item, version)
			matched = append(matched, item)
		}
	}
	return list, meta.SetList(list, matched)
}

// watch opens a watch. It rejects watches with initial events; clients then send a list.
func (c *call) watch() (watch.Interface, metav1.ListOptions, error) {
	opts, err := c.listOptions()
	if err != nil {
		return nil, opts, err
	}
	if opts.SendInitialEvents != nil {
		return nil, opts, apierrors.NewBadRequest("a fake clientset has no streaming lists")
	}
	opts.Watch = true
	w, err := c.fake.InvokesWatch(testing.NewWatchActionWithOptions(c.resource(), c.namespace, opts))
	return w, opts, err
}

func (c *call) listOptions() (metav1.ListOptions, error) {
	var opts metav1.ListOptions
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&c.query, &opts, nil); err != nil {
		return opts, apierrors.NewBadRequest(err.Error())
	}
	return opts, nil
}

// decode decodes an object, into the Go type of its kind if there is one.
func (c *call) decode(body []byte) (runtime.Object, error) {
	var is metav1.TypeMeta
	if err := json.Unmarshal(body, &is); err != nil {
		return nil, err
	}
	var obj runtime.Object = &unstructured.Unstructured{}
	if kind := is.GroupVersionKind(); c.scheme.Recognizes(kind) {
		var err error
		if obj, err = c.scheme.New(kind); err != nil {
			return nil, err
		}
	}
	return obj, json.Unmarshal(body, obj)
}

func matches(opts metav1.ListOptions, obj runtime.Object) bool {
	label, _, _ := testing.ExtractFromListOptions(opts)
	m, err := meta.Accessor(obj)
	return label == nil || err == nil && label.Matches(labels.Set(m.GetLabels()))
}

// identify sets apiVersion and kind of an object or list, and the resourceVersion of a list, which
// trackers omit.
func (t *transport) identify(obj runtime.Object, version string) {
	if kinds, _, err := t.scheme.ObjectKinds(obj); err == nil && obj.GetObjectKind().GroupVersionKind().Empty() {
		obj.GetObjectKind().SetGroupVersionKind(kinds[0])
	}
	if m, err := meta.CommonAccessor(obj); err == nil && m.GetResourceVersion() == "" {
		m.SetResourceVersion(version)
	}
}

var statusKind = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}

// failure returns the response to an error, with the Status that a server would send.
func failure(err error) *metav1.Status {
	s := apierrors.NewInternalError(err).Status()
	if known := apierrors.APIStatus(nil); errors.As(err, &known) {
		s = known.Status()
	}
	s.TypeMeta = statusKind
	return &s
}

func answer(r *http.Request, obj runtime.Object) (*http.Response, error) {
	code := http.StatusOK
	if s, ok := obj.(*metav1.Status); ok && s.Code != 0 {
		code = int(s.Code)
	}
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("fake clientset: %w", err)
	}
	return respond(r, code, io.NopCloser(bytes.NewReader(data))), nil
}

func respond(r *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1, Request: r,
	}
}

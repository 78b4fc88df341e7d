package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/controlplane"
)

const (
	pageSize = 500
	// readers is the number of kinds that are read concurrently.
	readers = 8
)

// Cluster reads all objects of a cluster. It needs the verbs get and list. It reads kinds at
// different times, so if the cluster changes during that, the result mixes states of different
// moments. It reads missing owners, which were created between the reads of two kinds, one by one.
//
// Kinds that the user may not list, that other API servers serve, or that this version of
// Kubernetes does not have are missing in the state; its notes name them. It omits Events and
// Leases.
func Cluster(ctx context.Context, config *rest.Config) (*State, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	config.GroupVersion, config.NegotiatedSerializer = &schema.GroupVersion{}, scheme.Codecs.WithoutConversion()
	config.AcceptContentTypes, config.ContentType = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, err
	}
	r := &reader{client: client, kinds: map[schema.GroupKind]kind{}, uids: map[types.UID]bool{},
		unread: map[schema.GroupKind]bool{}}
	if err := r.discover(ctx, discovery.NewDiscoveryClient(client)); err != nil {
		return nil, err
	}
	if err := r.readAll(ctx); err != nil {
		return nil, err
	}
	if err := r.completeOwners(ctx); err != nil {
		return nil, err
	}
	slices.Sort(r.notes)
	return newState(config.Host, r.records, r.notes)
}

// reader reads the objects of a cluster.
type reader struct {
	client rest.Interface
	kinds  map[schema.GroupKind]kind
	order  []kind

	mu      sync.Mutex
	records []store.Record
	owned   []owned
	uids    map[types.UID]bool
	unread  map[schema.GroupKind]bool // kinds that the cluster serves and the state lacks
	notes   []string
}

// kind is a resource to read.
type kind struct {
	gvr        schema.GroupVersionResource
	kind       string
	namespaced bool
	// converts to the stored version; nil if the kind is read in that version
	convert resource.Codec
}

func (k kind) prefix() string { return k.gvr.GroupResource().String() }

// path returns the path of a collection, or of one object.
func (k kind) path(namespace, name string) string {
	p := "/apis/" + k.gvr.Group + "/" + k.gvr.Version
	if k.gvr.Group == "" {
		p = "/api/" + k.gvr.Version
	}
	if namespace != "" {
		p += "/namespaces/" + namespace
	}
	p += "/" + k.gvr.Resource
	if name != "" {
		p += "/" + name
	}
	return p
}

// owned is a reference to an owner.
type owned struct {
	record    int // of the dependent
	namespace string
	owner     metav1.OwnerReference
}

func (r *reader) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// discover finds the resources to read, each in the version in which a control plane stores it.
func (r *reader) discover(ctx context.Context, finder *discovery.DiscoveryClient) error {
	groups, lists, err := finder.ServerGroupsAndResources()
	if err != nil && len(lists) == 0 {
		return fmt.Errorf("discover the kinds of the cluster: %w", err)
	}
	if failed := (*discovery.ErrGroupDiscoveryFailed)(nil); errors.As(err, &failed) {
		for gv, why := range failed.Groups {
			r.note("the kinds of %s are not in the plan: %v", gv, why)
		}
	}
	preferred := map[string]string{}
	for _, g := range groups {
		preferred[g.Name] = g.PreferredVersion.Version
	}
	custom, err := r.definitions(ctx)
	if err != nil {
		return err
	}
	served, err := servedKinds(ctx)
	if err != nil {
		return err
	}
	versionsOf := map[schema.GroupResource]map[string]metav1.APIResource{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, api := range list.APIResources {
			gr := schema.GroupResource{Group: gv.Group, Resource: api.Name}
			if strings.Contains(api.Name, "/") || !slices.Contains(api.Verbs, "list") ||
				slices.Contains(omitted, gr.String()) {
				continue
			}
			if versionsOf[gr] == nil {
				versionsOf[gr] = map[string]metav1.APIResource{}
			}
			versionsOf[gr][gv.Version] = api
		}
	}
	for gr, versions := range versionsOf {
		r.choose(gr, versions, preferred[gr.Group], custom, served)
	}
	slices.SortFunc(r.order, func(a, b kind) int { return strings.Compare(a.prefix(), b.prefix()) })
	return nil
}

// choose selects the version in which a resource is read.
func (r *reader) choose(gr schema.GroupResource, versions map[string]metav1.APIResource, preferred string,
	custom map[schema.GroupResource]string, served *resource.Set) {
	any := func() string {
		if _, ok := versions[preferred]; ok {
			return preferred
		}
		return slices.MaxFunc(slices.Collect(maps.Keys(versions)), apiversion.CompareKubeAwareVersionStrings)
	}
	var version string
	var codec resource.Codec
	if storage, ok := custom[gr]; ok {
		if version = storage; versions[version].Name == "" {
			version = any()
		}
	} else if res, ok := served.ByName(gr); ok && res.Codec != nil && res.Computed == nil {
		if version = res.StorageVersion; versions[version].Name == "" {
			version, codec = any(), res.Codec
			if _, ok := res.Serves(version); !ok {
				r.leaveOut(gr, versions[version].Kind, "kelson does not have its version "+version)
				return
			}
		}
	} else {
		r.leaveOut(gr, versions[any()].Kind, "another API server serves it, or another version of Kubernetes")
		return
	}
	api := versions[version]
	k := kind{gvr: gr.WithVersion(version), kind: api.Kind, namespaced: api.Namespaced, convert: codec}
	r.kinds[schema.GroupKind{Group: gr.Group, Kind: api.Kind}] = k
	r.order = append(r.order, k)
}

func (r *reader) leaveOut(gr schema.GroupResource, kind, why string) {
	r.mu.Lock()
	r.unread[schema.GroupKind{Group: gr.Group, Kind: kind}] = true
	r.mu.Unlock()
	r.note("%s are not in the plan: %s", gr, why)
}

// definitions returns the versions in which custom resources are stored.
func (r *reader) definitions(ctx context.Context) (map[schema.GroupResource]string, error) {
	var list apiextensionsv1.CustomResourceDefinitionList
	data, err := read(ctx, r.client.Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions"))
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("list the definitions of the cluster: %w", err)
	}
	stored := map[schema.GroupResource]string{}
	for _, crd := range list.Items {
		for _, v := range crd.Spec.Versions {
			if v.Storage {
				stored[schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}] = v.Name
			}
		}
	}
	return stored, nil
}

// servedKinds returns the kinds that a control plane of this process serves.
func servedKinds(ctx context.Context) (*resource.Set, error) {
	plane, err := controlplane.Start(ctx, controlplane.Config{Controllers: controlplane.NoControllers{}})
	if err != nil {
		return nil, err
	}
	defer plane.Stop()
	return plane.Registry().Current(), nil
}

func (r *reader) readAll(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for _, k := range r.order {
		group.Go(func() error {
			err := r.list(ctx, k)
			switch {
			case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err), apierrors.IsNotFound(err):
				r.leaveOut(k.gvr.GroupResource(), k.kind, err.Error())
				return nil
			case err != nil:
				return fmt.Errorf("list %s: %w", k.prefix(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// read returns the body of the response. The error has the message of the server's Status.
func read(ctx context.Context, req *rest.Request) ([]byte, error) {
	result := req.Do(ctx)
	data, err := result.Raw()
	if err != nil {
		return nil, result.Error()
	}
	return data, nil
}

func (r *reader) list(ctx context.Context, k kind) error {
	next := ""
	for {
		query := url.Values{"limit": {strconv.Itoa(pageSize)}}
		if next != "" {
			query.Set("continue", next)
		}
		data, err := read(ctx, r.client.Get().RequestURI(k.path("", "")+"?"+query.Encode()))
		if err != nil {
			return err
		}
		var page struct {
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(data, &page); err != nil {
			return err
		}
		if err := r.add(k, page.Items); err != nil {
			return err
		}
		if next = page.Metadata.Continue; next == "" {
			return nil
		}
	}
}

// head has the fields of an object that the reader needs.
type head struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Namespace       string                  `json:"namespace"`
		Name            string                  `json:"name"`
		UID             types.UID               `json:"uid"`
		ResourceVersion string                  `json:"resourceVersion"`
		OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
	} `json:"metadata"`
}

// add adds objects of a kind.
func (r *reader) add(k kind, items []json.RawMessage) error {
	for _, data := range items {
		var h head
		if err := json.Unmarshal(data, &h); err != nil {
			return err
		}
		revision, err := strconv.ParseUint(h.Metadata.ResourceVersion, 10, 64)
		if err != nil {
			return fmt.Errorf("resourceVersion of %s/%s: %w", h.Metadata.Namespace, h.Metadata.Name, err)
		}
		if data, err = k.stored(data, h.Kind != ""); err != nil {
			return fmt.Errorf("%s/%s: %w", h.Metadata.Namespace, h.Metadata.Name, err)
		}
		r.mu.Lock()
		for _, owner := range h.Metadata.OwnerReferences {
			r.owned = append(r.owned, owned{len(r.records), h.Metadata.Namespace, owner})
		}
		r.uids[h.Metadata.UID] = true
		r.records = append(r.records, store.Record{
			Key:      store.Key{Resource: k.prefix(), Namespace: h.Metadata.Namespace, Name: h.Metadata.Name},
			Revision: revision, Created: revision, Data: data,
		})
		r.mu.Unlock()
	}
	return nil
}

// stored returns an object in the form in which it is stored. Items of lists of built-in kinds lack
// their apiVersion and kind.
func (k kind) stored(data []byte, complete bool) ([]byte, error) {
	data = bytes.TrimSpace(data)
	if !complete {
		data = append(fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,`, k.gvr.GroupVersion().String(), k.kind),
			data[1:]...)
	}
	if k.convert == nil {
		return data, nil
	}
	hub, _, err := k.convert.Decode(data, resource.MediaJSON, k.gvr.Version)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	return k.convert.Store(hub)
}

// completeOwners reads owners that are missing, and removes references to owners that could not be
// read, so that the garbage collector keeps the same objects as in the cluster.
func (r *reader) completeOwners(ctx context.Context) error {
	looked := map[types.UID]bool{}
	for _, o := range r.owned {
		if r.uids[o.owner.UID] {
			continue
		}
		gv, err := schema.ParseGroupVersion(o.owner.APIVersion)
		if err != nil {
			continue
		}
		gk := schema.GroupKind{Group: gv.Group, Kind: o.owner.Kind}
		if r.unread[gk] {
			if r.records[o.record].Data, err = withoutOwner(r.records[o.record].Data, o.owner.UID); err != nil {
				return err
			}
			continue
		}
		k, ok := r.kinds[gk]
		if !ok || looked[o.owner.UID] {
			continue
		}
		looked[o.owner.UID] = true
		if !k.namespaced {
			o.namespace = ""
		}
		data, err := read(ctx, r.client.Get().AbsPath(k.path(o.namespace, o.owner.Name)))
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			continue // the owner does not exist in the cluster either
		}
		if err != nil {
			return fmt.Errorf("get owner %s %s: %w", k.prefix(), o.owner.Name, err)
		}
		var h head
		if err := json.Unmarshal(data, &h); err != nil {
			return err
		}
		if h.Metadata.UID == o.owner.UID {
			if err := r.add(k, []json.RawMessage{data}); err != nil {
				return err
			}
		}
	}
	return nil
}

// withoutOwner removes an owner reference.
func withoutOwner(data []byte, uid types.UID) ([]byte, error) {
	obj, err := decode(data)
	if err != nil {
		return nil, err
	}
	owners := obj.GetOwnerReferences()
	obj.SetOwnerReferences(slices.DeleteFunc(owners, func(o metav1.OwnerReference) bool { return o.UID == uid }))
	return obj.MarshalJSON()
}

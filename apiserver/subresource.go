package apiserver

import (
	"context"
	"net/http"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/goschema"
	"kelson.dev/apiserver/resource"
)

// Call is a request to a subresource of an object.
type Call[H runtime.Object] struct {
	Namespace, Name string
	// Query is the query of the request.
	Query  map[string][]string
	DryRun bool
	Server *Server
}

// Get returns the object.
func (c *Call[H]) Get(tx *Tx) (H, error) { return Get[H](tx, c.Namespace, c.Name) }

type subMaker func(s *Server, k *kind) resource.Subresource

// Action adds a subresource that is a custom verb: POST with a body of the type B runs do, whose
// result is the response. Clients need the permission to create <plural>/<name>. B must be a
// pointer to a struct with TypeMeta; the name of the type is the kind of the body, in the group of
// the kind and the version of its hub. The same holds for R, the response. R can also be an
// interface such as runtime.Object: OpenAPI documents then say only that the response is an object,
// and a response without a kind gets the kind of the body. With call.DryRun, do must not write.
//
//	type call = apiserver.Call[*v1.Pizza]
//
//	func Bake(ctx context.Context, c *call, body *v1.Bake) (*v1.Bake, error) {
//		return body, c.Server.Transact(ctx, func(tx *apiserver.Tx) error { … })
//	}
//
//	apiserver.Kind(&v1.Pizza{}, apiserver.Action("bake", Bake))
func Action[H, B, R runtime.Object](name string,
	do func(ctx context.Context, call *Call[H], body B) (R, error)) KindOption {
	return kindFunc(func(k *kind) {
		body, response := reflect.TypeFor[B](), reflect.TypeFor[R]()
		doc := subDoc{name: name}
		for what, t := range map[string]reflect.Type{"body": body, "response": response} {
			if what == "response" && t.Kind() == reflect.Interface {
				continue // any object
			}
			if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
				k.fail("action %s of %s: the %s %s must be a pointer to a struct", name, k.name, what, t)
				return
			}
			if _, err := goschema.Of(t); err != nil {
				k.errs = append(k.errs, err)
				return
			}
		}
		doc.body = body.Elem()
		if response.Kind() == reflect.Pointer {
			doc.response = response.Elem()
		}
		k.subDocs = append(k.subDocs, doc)
		k.subs = append(k.subs, func(s *Server, k *kind) resource.Subresource {
			register := func(t reflect.Type) schema.GroupVersionKind {
				gvk := schema.GroupVersionKind{Group: k.group, Version: k.hub().name, Kind: t.Name()}
				if !s.scheme.Recognizes(gvk) {
					s.scheme.AddKnownTypeWithName(gvk, reflect.New(t).Interface().(runtime.Object))
				}
				return gvk
			}
			var responseKind schema.GroupVersionKind
			if doc.response != nil {
				responseKind = register(doc.response)
			}
			return resource.Subresource{
				Name: name, GVK: register(doc.body), NoTable: true,
				Create: func(ctx context.Context, req *resource.Request, in runtime.Object) (runtime.Object, error) {
					out, err := do(ctx, &Call[H]{req.Namespace, req.Name, req.Query, req.DryRun, s}, in.(B))
					if err != nil {
						return nil, err
					}
					if kind := out.GetObjectKind(); doc.response != nil && kind.GroupVersionKind().Empty() {
						kind.SetGroupVersionKind(responseKind)
					}
					return out, nil
				},
			}
		})
	})
}

// Connect adds a subresource with a separate handler for its requests, which can send any response
// and any protocol. They last as long as the client wants. obj is the newest state of the object.
// methods are the HTTP methods; none means GET.
func Connect[H runtime.Object](name string, serve func(ctx context.Context, call *Call[H], obj H) (http.Handler, error),
	methods ...string) KindOption {
	return kindFunc(func(k *kind) {
		if _, ok := k.hub().proto.(H); !ok {
			k.fail("subresource %s of %s is for %s, and the hub is %T", name, k.name, reflect.TypeFor[H](),
				k.hub().proto)
			return
		}
		k.subDocs = append(k.subDocs, subDoc{name: name, methods: methods})
		k.subs = append(k.subs, func(s *Server, _ *kind) resource.Subresource {
			return resource.Subresource{
				Name: name, NoTable: true, ConnectVerbs: slices.Clone(methods), Verbs: connectVerbs(methods),
				Connect: func(ctx context.Context, req *resource.Request, obj runtime.Object) (http.Handler, error) {
					return serve(ctx, &Call[H]{req.Namespace, req.Name, req.Query, req.DryRun, s}, obj.(H))
				},
			}
		})
	})
}

// connectVerbs returns the verbs that discovery shows.
func connectVerbs(methods []string) []string {
	if len(methods) == 0 {
		return []string{resource.Get}
	}
	var verbs []string
	for _, m := range methods {
		if verb := resource.VerbOf(m); verb != "" && !slices.Contains(verbs, verb) {
			verbs = append(verbs, verb)
		}
	}
	slices.Sort(verbs)
	return verbs
}

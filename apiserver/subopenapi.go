package apiserver

import (
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"kelson.dev/apiserver/goschema"
)

// subDoc describes a subresource of Action or Connect for OpenAPI documents.
type subDoc struct {
	name     string
	body     reflect.Type // the struct type of an Action's body; nil for Connect
	response reflect.Type // the struct type of an Action's response; nil means any object
	methods  []string     // the HTTP methods of Connect; empty means GET
}

const (
	actionExtension = "x-kubernetes-action"
	kindExtension   = "x-kubernetes-group-version-kind"
	jsonMedia       = "application/json"
)

// item returns the path of the objects of a kind in a version.
func (k *kind) item(version string) string {
	namespaced := "namespaces/{namespace}/"
	if k.cluster {
		namespaced = ""
	}
	return "/apis/" + k.group + "/" + version + "/" + namespaced + k.plural + "/{name}"
}

// bodyDefinition returns a definition with the schema of the body of an action. Like the body, it
// is in the version of the hub.
func (k *kind) bodyDefinition(body reflect.Type) (*apiextensionsv1.CustomResourceDefinition, error) {
	s, err := goschema.Of(body)
	if err != nil {
		return nil, err
	}
	plural := strings.ToLower(body.Name()) + "s"
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + k.group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: k.group, Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: body.Name(),
				ListKind: body.Name() + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: k.hub().name, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: s},
			}},
		},
	}, nil
}

// bodyName is the name that Kubernetes' builder gives the schema of a body.
func (k *kind) bodyName(body reflect.Type) string {
	group := strings.Split(k.group, ".")
	slices.Reverse(group)
	return strings.Join(group, ".") + "." + k.hub().name + "." + body.Name()
}

// bodySchema removes the property metadata, which Kubernetes' builder adds to each kind, unless the
// body has it.
func bodySchema(s spec.Schema, body reflect.Type) spec.Schema {
	if _, has := body.FieldByName("ObjectMeta"); has {
		return s
	}
	s.Properties = maps.Clone(s.Properties)
	delete(s.Properties, "metadata")
	return s
}

// extensions returns the extensions of an operation.
func (k *kind) extensions(version, action string, body reflect.Type) spec.VendorExtensible {
	gvk := k.gvk(version)
	if body != nil {
		gvk = k.gvk(k.hub().name)
		gvk.Kind = body.Name()
	}
	return spec.VendorExtensible{Extensions: spec.Extensions{
		actionExtension: action, kindExtension: map[string]any{"group": gvk.Group, "version": gvk.Version,
			"kind": gvk.Kind},
	}}
}

// operationID returns the ID of an operation on a subresource; read is the ID of reads of the
// object.
func operationID(read, verb, subresource string) string {
	title := strings.ToUpper(subresource[:1]) + subresource[1:]
	return verb + strings.TrimPrefix(read, "read") + title
}

// description returns the sentence that describes an operation.
func (k *kind) description(d subDoc, method string) string {
	if d.body != nil {
		return fmt.Sprintf("create %s of a %s", d.name, k.name)
	}
	return fmt.Sprintf("connect %s requests to %s of %s", method, d.name, k.name)
}

// addSubsV3 adds the subresources of Action and Connect to a document with the paths of the kind.
func (k *kind) addSubsV3(doc *spec3.OpenAPI, version string) error {
	base := doc.Paths.Paths[k.item(version)]
	if base == nil || base.Get == nil {
		return nil
	}
	for _, d := range k.subDocs {
		path := &spec3.Path{PathProps: spec3.PathProps{Parameters: base.Parameters}}
		doc.Paths.Paths[k.item(version)+"/"+d.name] = path
		operation := func(method, verb, action string) *spec3.Operation {
			return &spec3.Operation{OperationProps: spec3.OperationProps{
				Tags: base.Get.Tags, Description: k.description(d, method),
				OperationId: operationID(base.Get.OperationId, verb, d.name),
				Responses: &spec3.Responses{ResponsesProps: spec3.ResponsesProps{
					StatusCodeResponses: map[int]*spec3.Response{}}},
			}, VendorExtensible: k.extensions(version, action, d.body)}
		}
		respond := func(op *spec3.Operation, code int, text, media string, s *spec.Schema) {
			op.Responses.StatusCodeResponses[code] = &spec3.Response{ResponseProps: spec3.ResponseProps{Description: text, Content: map[string]*spec3.MediaType{
				media: {MediaTypeProps: spec3.MediaTypeProps{Schema: s}},
			}}}
		}
		if d.body == nil {
			for _, m := range d.connectMethods() {
				op := operation(m, "connect"+m[:1]+strings.ToLower(m[1:]), "connect")
				respond(op, http.StatusOK, "OK", "*/*", ofType("string"))
				if at := operationsV3(path)[m]; at != nil {
					*at = op
				}
			}
			continue
		}
		body, err := k.defineV3(doc, d.body)
		if err != nil {
			return fmt.Errorf("describe %s of %s: %w", d.name, k.name, err)
		}
		response, err := k.defineV3(doc, d.response)
		if err != nil {
			return fmt.Errorf("describe %s of %s: %w", d.name, k.name, err)
		}
		path.Post = operation(http.MethodPost, "create", "post")
		path.Post.RequestBody = &spec3.RequestBody{RequestBodyProps: spec3.RequestBodyProps{Required: true,
			Content: map[string]*spec3.MediaType{
				jsonMedia: {MediaTypeProps: spec3.MediaTypeProps{Schema: body}},
			}}}
		respond(path.Post, http.StatusOK, "OK", jsonMedia, response)
		respond(path.Post, http.StatusCreated, "Created", jsonMedia, response)
	}
	return nil
}

// defineV3 returns a reference to the schema of a body or response, and adds the schema to a
// document that lacks it. A nil type means any object.
func (k *kind) defineV3(doc *spec3.OpenAPI, t reflect.Type) (*spec.Schema, error) {
	if t == nil {
		return ofType("object"), nil
	}
	name := k.bodyName(t)
	if doc.Components.Schemas[name] == nil {
		definition, err := k.bodyDefinition(t)
		if err != nil {
			return nil, err
		}
		built, err := builder.BuildOpenAPIV3(definition, k.hub().name, builder.Options{})
		if err != nil {
			return nil, err
		}
		s := bodySchema(*built.Components.Schemas[name], t)
		doc.Components.Schemas[name] = &s
	}
	return spec.RefSchema("#/components/schemas/" + name), nil
}

// defineV2 is like defineV3, for OpenAPI v2.
func (k *kind) defineV2(doc *spec.Swagger, t reflect.Type) (*spec.Schema, error) {
	if t == nil {
		return ofType("object"), nil
	}
	name := k.bodyName(t)
	if _, has := doc.Definitions[name]; !has {
		definition, err := k.bodyDefinition(t)
		if err != nil {
			return nil, err
		}
		built, err := builder.BuildOpenAPIV2(definition, k.hub().name, builder.Options{V2: true})
		if err != nil {
			return nil, err
		}
		doc.Definitions[name] = bodySchema(handler.PruneDefaults(built.Definitions)[name], t)
	}
	return spec.RefSchema("#/definitions/" + name), nil
}

// ofType returns the schema of any value of a JSON type.
func ofType(name string) *spec.Schema {
	return &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{name}}}
}

// addSubsV2 is like addSubsV3, for OpenAPI v2.
func (k *kind) addSubsV2(doc *spec.Swagger, version string) error {
	base := doc.Paths.Paths[k.item(version)]
	if base.Get == nil {
		return nil
	}
	for _, d := range k.subDocs {
		path := spec.PathItem{PathItemProps: spec.PathItemProps{Parameters: base.Parameters}}
		operation := func(method, verb, action, media string, s *spec.Schema) *spec.Operation {
			response := func(text string) spec.Response {
				return spec.Response{ResponseProps: spec.ResponseProps{Description: text, Schema: s}}
			}
			op := &spec.Operation{OperationProps: spec.OperationProps{
				Tags: base.Get.Tags, Schemes: base.Get.Schemes, Description: k.description(d, method),
				ID:       operationID(base.Get.ID, verb, d.name),
				Consumes: []string{media}, Produces: []string{media},
				Responses: &spec.Responses{ResponsesProps: spec.ResponsesProps{
					StatusCodeResponses: map[int]spec.Response{http.StatusOK: response("OK")}}},
			}, VendorExtensible: k.extensions(version, action, d.body)}
			if d.body != nil {
				op.Responses.StatusCodeResponses[http.StatusCreated] = response("Created")
			}
			return op
		}
		if d.body == nil {
			for _, m := range d.connectMethods() {
				if at := operationsV2(&path)[m]; at != nil {
					*at = operation(m, "connect"+m[:1]+strings.ToLower(m[1:]), "connect", "*/*", ofType("string"))
				}
			}
		} else {
			body, err := k.defineV2(doc, d.body)
			if err != nil {
				return fmt.Errorf("describe %s of %s: %w", d.name, k.name, err)
			}
			response, err := k.defineV2(doc, d.response)
			if err != nil {
				return fmt.Errorf("describe %s of %s: %w", d.name, k.name, err)
			}
			path.Post = operation(http.MethodPost, "create", "post", jsonMedia, response)
			path.Post.Parameters = []spec.Parameter{
				{ParamProps: spec.ParamProps{Name: "body", In: "body", Required: true, Schema: body}}}
		}
		doc.Paths.Paths[k.item(version)+"/"+d.name] = path
	}
	return nil
}

func (d *subDoc) connectMethods() []string {
	if len(d.methods) == 0 {
		return []string{http.MethodGet}
	}
	return slices.Compact(slices.Sorted(slices.Values(d.methods)))
}

// operationsV3 returns pointers to the fields with the operation of each HTTP method.
func operationsV3(p *spec3.Path) map[string]**spec3.Operation {
	return map[string]**spec3.Operation{
		http.MethodGet: &p.Get, http.MethodPost: &p.Post, http.MethodPut: &p.Put, http.MethodPatch: &p.Patch,
		http.MethodDelete: &p.Delete,
		http.MethodHead:   &p.Head, http.MethodOptions: &p.Options,
	}
}

// operationsV2 is like operationsV3, for OpenAPI v2.
func operationsV2(p *spec.PathItem) map[string]**spec.Operation {
	return map[string]**spec.Operation{
		http.MethodGet: &p.Get, http.MethodPost: &p.Post, http.MethodPut: &p.Put, http.MethodPatch: &p.Patch,
		http.MethodDelete: &p.Delete,
		http.MethodHead:   &p.Head, http.MethodOptions: &p.Options,
	}
}

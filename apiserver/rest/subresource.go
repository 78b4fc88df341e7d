package rest

import (
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apiserver/pkg/admission"
	upstream "k8s.io/apiserver/pkg/registry/rest"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest/wire"
)

// serveSubresource dispatches a request on a subresource.
func (s *scope) serveSubresource() error {
	switch {
	case s.sub.Connect != nil:
		return s.connect()
	case len(s.info.Parts) > 3 && !s.res.Behavior.DispatchByVerb:
		return errNotFoundPath
	case s.sub.Create != nil:
		if s.req.Method != http.MethodPost {
			return s.methodNotAllowed()
		}
		if err := s.checkRoute(false); err != nil {
			return err
		}
		return s.createSubresource()
	}
	if verbs := s.sub.Verbs; !slices.Contains([]string{resource.Get, resource.Update, resource.Patch}, s.info.Verb) ||
		verbs != nil && !slices.Contains(verbs, s.info.Verb) {
		return s.methodNotAllowed()
	}
	if err := s.checkRoute(false); err != nil {
		return err
	}
	sameType := s.sub.Update.Get == nil // the subresource shows the object itself, such as status
	switch s.req.Method {
	case http.MethodGet:
		if sameType {
			return s.get()
		}
		return s.getView()
	case http.MethodPut:
		if sameType {
			return s.update()
		}
		return s.updateView()
	case http.MethodPatch:
		return s.patch()
	}
	return s.methodNotAllowed()
}

// request returns the request for a subresource handler.
func (s *scope) request(dryRun bool) *resource.Request {
	return &resource.Request{
		Resource: s.res, Version: s.version, Namespace: s.namespace, Name: s.name, DryRun: dryRun,
		Query: s.req.URL.Query(), Objects: s.Handler,
	}
}

// createSubresource serves POST to a subresource (binding, eviction, token).
func (s *scope) createSubresource() error {
	f, err := wire.Negotiate(s.req, s.viewAllow())
	if err != nil {
		return err
	}
	opts, err := s.createOptions()
	if err != nil {
		return err
	}
	body, media, err := s.viewBody()
	if err != nil {
		return err
	}
	result, err := bounded(s, weight(body, media), (*scope).createView, body, media, opts)
	if err != nil {
		return err
	}
	return s.respondView(http.StatusCreated, f, result)
}

func (s *scope) createView(body []byte, media string, opts *metav1.CreateOptions) (runtime.Object, error) {
	obj, err := s.decodeView(body, media, opts.FieldValidation, nil)
	if err != nil {
		return nil, err
	}
	s.record(obj)
	if object, err := meta.Accessor(obj); err == nil {
		if err := upstream.EnsureObjectNamespaceMatchesRequestNamespace(s.namespace, object); err != nil {
			return nil, err
		}
	}
	dryRun := len(opts.DryRun) > 0
	admit := s.admit(dryRun, func(admission.Operation) runtime.Object { return opts })
	req := s.request(dryRun)
	if obj, err = s.admitNewView(admit, obj, req, opts.FieldManager); err != nil {
		return nil, err
	}
	return s.sub.Create(s.ctx, req, obj)
}

// viewAllow returns the forms of a subresource's own kind. Subresources of a kind without protobuf
// are not served as protobuf either, even if their types support it. What POST creates has no
// columns.
func (s *scope) viewAllow() wire.Allow {
	return wire.Allow{Protobuf: !s.res.Behavior.NoProtobuf, Transform: true, NoTable: s.sub.Create != nil}
}

func (s *scope) viewBody() ([]byte, string, error) {
	media, err := wire.BodyMedia(s.req, s.viewAllow())
	if err != nil {
		return nil, "", err
	}
	body, err := s.body()
	return body, media, err
}

// decodeView decodes a body of the subresource's own kind; into may be nil.
func (s *scope) decodeView(body []byte, media, directive string, into runtime.Object) (runtime.Object, error) {
	types := s.res.Codec.Interfaces()
	var decoder runtime.Decoder
	switch media {
	case resource.MediaProtobuf:
		decoder = protobuf.NewSerializer(types.Creater, types.Typer)
	case resource.MediaCBOR:
		decoder = cbor.NewSerializer(types.Creater, types.Typer, cbor.Strict(true))
	default:
		decoder = jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, types.Creater, types.Typer,
			jsonserializer.SerializerOptions{Strict: true, Yaml: media == resource.MediaYAML})
	}
	if codec, ok := s.res.Codec.(resource.Affordable); ok {
		if err := codec.CheckBody(body, media, s.kind); err != nil {
			return nil, err
		}
	}
	obj, kind, err := decoder.Decode(body, &s.kind, into)
	strict, found := runtime.AsStrictDecodingError(err)
	if err != nil && (!found || obj == nil) {
		return nil, resource.Unreadable(s.kind.Kind, kind, body, err)
	}
	if kind.GroupKind() == s.kind.GroupKind() && slices.Contains(s.sub.Accepts, kind.Version) {
		if obj, err = convertView(types, obj, s.kind); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		kind = &s.kind
	}
	internal := s.sub.Update == nil || s.sub.Update.Internal // the view is decoded into its hub
	if *kind != s.kind && internal {
		hub, err := types.Creater.New(s.kind.GroupKind().WithVersion(runtime.APIVersionInternal))
		if err == nil {
			err = types.Convertor.Convert(obj, hub, nil)
		}
		if err != nil {
			return nil, resource.Unreadable(s.kind.Kind, kind, body, err)
		}
	}
	if found && (internal || *kind == s.kind) {
		if err := s.strictBody(directive, strict.Errors()); err != nil {
			return nil, err
		}
	}
	if *kind != s.kind {
		return nil, apierrors.NewBadRequest("the API version in the data (" + kind.GroupVersion().String() +
			") does not match the expected API version (" + s.kind.GroupVersion().String() + ")")
	}
	obj.GetObjectKind().SetGroupVersionKind(s.kind)
	if types.Defaulter != nil {
		types.Defaulter.Default(obj)
	}
	return obj, nil
}

// convertView converts a body to another version of its kind.
func convertView(types resource.Interfaces, obj runtime.Object, to schema.GroupVersionKind) (runtime.Object, error) {
	hub, err := types.Creater.New(to.GroupKind().WithVersion(runtime.APIVersionInternal))
	if err == nil {
		err = types.Convertor.Convert(obj, hub, nil)
	}
	var converted runtime.Object
	if err == nil {
		converted, err = types.Creater.New(to)
	}
	if err == nil {
		err = types.Convertor.Convert(hub, converted, nil)
	}
	return converted, err
}

// serveReview serves a kind that is never stored: POST responds with the reviewed object.
func (s *scope) serveReview() error {
	if s.req.Method != http.MethodPost {
		return s.methodNotAllowed()
	}
	if err := s.checkRoute(false); err != nil {
		return err
	}
	f, err := wire.Negotiate(s.req, s.allow())
	if err != nil {
		return err
	}
	opts, err := s.createOptions()
	if err != nil {
		return err
	}
	body, media, err := s.newBody()
	if err != nil {
		return err
	}
	result, err := bounded(s, weight(body, media), (*scope).review, body, media, opts)
	if err != nil {
		return err
	}
	return s.respondView(http.StatusCreated, f, result)
}

// review decodes a body and returns the reviewed object.
func (s *scope) review(body []byte, media string, opts *metav1.CreateOptions) (runtime.Object, error) {
	hub, err := s.decodeNew(body, media, opts)
	if err != nil {
		return nil, err
	}
	dryRun := len(opts.DryRun) > 0
	admit := s.admit(dryRun, func(admission.Operation) runtime.Object { return opts })
	if hub, err = s.created(hub, admit, opts.FieldManager); err != nil {
		return nil, err
	}
	if validate := admit.validateCreate(); validate != nil {
		if err := validate(s.ctx, hub); err != nil {
			return nil, err
		}
	}
	result, err := s.res.Review(s.ctx, s.request(dryRun), hub)
	if err != nil {
		return nil, err
	}
	if _, ok := result.(*metav1.Status); ok {
		return result, nil
	}
	return s.res.Codec.ToVersion(result, s.version)
}

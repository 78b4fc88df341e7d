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
	case s.on.sub.Connect != nil:
		return s.connect()
	case len(s.on.info.Parts) > 3 && !s.on.res.Behavior.DispatchByVerb:
		return errNotFoundPath
	case s.on.sub.Create != nil:
		if s.in.req.Method != http.MethodPost {
			return s.on.methodNotAllowed()
		}
		if err := s.checkRoute(false); err != nil {
			return err
		}
		return s.createSubresource()
	}
	if verbs := s.on.sub.Verbs; !slices.Contains([]string{resource.Get, resource.Update, resource.Patch},
		s.on.info.Verb) ||
		verbs != nil && !slices.Contains(verbs, s.on.info.Verb) {
		return s.on.methodNotAllowed()
	}
	if err := s.checkRoute(false); err != nil {
		return err
	}
	// the subresource shows the object itself, such as status
	sameType := s.on.sub.Update.Get == nil
	switch s.in.req.Method {
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
	return s.on.methodNotAllowed()
}

// request returns the request for a subresource handler.
func (s *scope) request(dryRun bool) *resource.Request {
	return &resource.Request{
		Resource: s.on.res, Version: s.on.version, Namespace: s.on.namespace, Name: s.on.name, DryRun: dryRun,
		Query: s.in.req.URL.Query(), Objects: s.h,
	}
}

// createSubresource serves POST to a subresource (binding, eviction, token).
func (s *scope) createSubresource() error {
	f, err := wire.Negotiate(s.in.req, s.on.viewAllow())
	if err != nil {
		return err
	}
	opts, err := s.in.createOptions()
	if err != nil {
		return err
	}
	body, media, err := s.in.viewBody()
	if err != nil {
		return err
	}
	result, err := bounded(s, weight(body, media), (*scope).createView, body, media, opts)
	if err != nil {
		return err
	}
	return s.out.respondView(http.StatusCreated, f, result)
}

func (s *scope) createView(body []byte, media string, opts *metav1.CreateOptions) (runtime.Object, error) {
	obj, err := s.in.decodeView(body, media, opts.FieldValidation, nil)
	if err != nil {
		return nil, err
	}
	s.in.record(obj)
	if object, err := meta.Accessor(obj); err == nil {
		if err := upstream.EnsureObjectNamespaceMatchesRequestNamespace(s.on.namespace, object); err != nil {
			return nil, err
		}
	}
	dryRun := len(opts.DryRun) > 0
	admit := s.admit(dryRun, func(admission.Operation) runtime.Object { return opts })
	req := s.request(dryRun)
	if obj, err = s.admitNewView(admit, obj, req, opts.FieldManager); err != nil {
		return nil, err
	}
	return s.on.sub.Create(s.in.ctx, req, obj)
}

// viewAllow returns the forms of a subresource's own kind. Subresources of a kind without protobuf
// are not served as protobuf either, even if their types support it. What POST creates has no
// columns.
func (t *target) viewAllow() wire.Allow {
	return wire.Allow{Protobuf: !t.res.Behavior.NoProtobuf, Transform: true, NoTable: t.sub.Create != nil}
}

func (in *input) viewBody() ([]byte, string, error) {
	media, err := wire.BodyMedia(in.req, in.on.viewAllow())
	if err != nil {
		return nil, "", err
	}
	body, err := in.body()
	return body, media, err
}

// decodeView decodes a body of the subresource's own kind; into may be nil.
func (in *input) decodeView(body []byte, media, directive string, into runtime.Object) (runtime.Object, error) {
	types := in.on.res.Codec.Interfaces()
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
	if codec, ok := in.on.res.Codec.(resource.Affordable); ok {
		if err := codec.CheckBody(body, media, in.on.kind); err != nil {
			return nil, err
		}
	}
	obj, kind, err := decoder.Decode(body, &in.on.kind, into)
	strict, found := runtime.AsStrictDecodingError(err)
	if err != nil && (!found || obj == nil) {
		return nil, resource.Unreadable(in.on.kind.Kind, kind, body, err)
	}
	if kind.GroupKind() == in.on.kind.GroupKind() && slices.Contains(in.on.sub.Accepts, kind.Version) {
		if obj, err = convertView(types, obj, in.on.kind); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		kind = &in.on.kind
	}
	// the view is decoded into its hub
	internal := in.on.sub.Update == nil || in.on.sub.Update.Internal
	if *kind != in.on.kind && internal {
		hub, err := types.Creater.New(in.on.kind.GroupKind().WithVersion(runtime.APIVersionInternal))
		if err == nil {
			err = types.Convertor.Convert(obj, hub, nil)
		}
		if err != nil {
			return nil, resource.Unreadable(in.on.kind.Kind, kind, body, err)
		}
	}
	if found && (internal || *kind == in.on.kind) {
		if err := in.strictBody(directive, strict.Errors()); err != nil {
			return nil, err
		}
	}
	if *kind != in.on.kind {
		return nil, apierrors.NewBadRequest("the API version in the data (" + kind.GroupVersion().String() +
			") does not match the expected API version (" + in.on.kind.GroupVersion().String() + ")")
	}
	obj.GetObjectKind().SetGroupVersionKind(in.on.kind)
	if types.Defaulter != nil {
		types.Defaulter.Default(obj)
	}
	return obj, nil
}

// convertView converts a body to another version of its kind.
func convertView(types resource.Interfaces, obj runtime.Object, to schema.GroupVersionKind) (runtime.Object, error) {
	hub, err := types.Creater.New(to.GroupKind().WithVersion(runtime.APIVersionInternal))
	if err != nil {
		return nil, err
	}
	if err := types.Convertor.Convert(obj, hub, nil); err != nil {
		return nil, err
	}
	converted, err := types.Creater.New(to)
	if err != nil {
		return nil, err
	}
	return converted, types.Convertor.Convert(hub, converted, nil)
}

// serveReview serves a kind that is never stored: POST responds with the reviewed object.
func (s *scope) serveReview() error {
	if s.in.req.Method != http.MethodPost {
		return s.on.methodNotAllowed()
	}
	if err := s.checkRoute(false); err != nil {
		return err
	}
	f, err := wire.Negotiate(s.in.req, s.on.allow())
	if err != nil {
		return err
	}
	opts, err := s.in.createOptions()
	if err != nil {
		return err
	}
	body, media, err := s.in.newBody()
	if err != nil {
		return err
	}
	result, err := bounded(s, weight(body, media), (*scope).review, body, media, opts)
	if err != nil {
		return err
	}
	return s.out.respondView(http.StatusCreated, f, result)
}

// review decodes a body and returns the reviewed object.
func (s *scope) review(body []byte, media string, opts *metav1.CreateOptions) (runtime.Object, error) {
	hub, err := s.in.decodeNew(body, media, opts)
	if err != nil {
		return nil, err
	}
	dryRun := len(opts.DryRun) > 0
	admit := s.admit(dryRun, func(admission.Operation) runtime.Object { return opts })
	if hub, err = s.created(hub, admit, opts.FieldManager); err != nil {
		return nil, err
	}
	if validate := admit.validateCreate(); validate != nil {
		if err := validate(s.in.ctx, hub); err != nil {
			return nil, err
		}
	}
	result, err := s.on.res.Review(s.in.ctx, s.request(dryRun), hub)
	if err != nil {
		return nil, err
	}
	if _, ok := result.(*metav1.Status); ok {
		return result, nil
	}
	return s.on.res.Codec.ToVersion(result, s.on.version)
}

package rest

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"kelson.dev/apiserver/rest/wire"
)

// deleteCollection deletes the objects that a LIST with the same options returns, one after the
// other, and responds with that list. It is not atomic: objects that were deleted before an error
// stay deleted.
func (s *scope) deleteCollection() error {
	f, err := wire.Negotiate(s.in.req, s.on.allow())
	if err != nil {
		return err
	}
	listOpts, sel, err := s.in.listOptions()
	if err != nil {
		return err
	}
	opts, err := s.in.deleteOptions()
	if err != nil {
		return err
	}
	if err := refuseUnsafe(opts); err != nil {
		return err
	}
	if err := s.deleting(opts); err != nil {
		return err
	}
	page, err := s.page(listOpts, sel)
	if err != nil {
		return err
	}
	admit := s.admit(len(opts.DryRun) > 0, func(admission.Operation) runtime.Object { return opts })
	validate := admit.validateDelete()
	for _, obj := range page.objects {
		if err := s.in.ctx.Err(); err != nil {
			return err
		}
		// Another client may have deleted the object. Other errors NotFound, such as that of an
		// admission rule, are the response.
		if done, err := s.h.remove(s.in.ctx, s.on.res, obj.Key, opts.DeepCopy(), validate); err != nil &&
			(done == nil || !done.missing) {
			return err
		}
	}
	return s.out.respondPage(f, page)
}

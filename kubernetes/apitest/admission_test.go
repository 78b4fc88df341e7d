package apitest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/apiserver/rest"
	"kelson.dev/internal/assert"
	"kelson.dev/kubernetes/apitest"
)

// admissionRecorder records the calls to admission, sets a label on objects, and rejects objects
// with a certain label.
type admissionRecorder struct{ seen []string }

func (w *admissionRecorder) Handles(admission.Operation) bool { return true }

func (w *admissionRecorder) Admit(_ context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	w.note("mutate", a)
	if a.GetObject() == nil || a.GetOperation() == admission.Connect || o.GetObjectCreater() == nil {
		return nil
	}
	object, err := meta.Accessor(a.GetObject())
	if err != nil {
		return err
	}
	if a.GetResource().Resource == "configmaps" {
		object.SetAnnotations(map[string]string{"admitted": string(a.GetOperation())})
	}
	return nil
}

func (w *admissionRecorder) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	w.note("validate", a)
	for _, obj := range []any{a.GetObject(), a.GetOldObject()} {
		if object, err := meta.Accessor(obj); err == nil && object.GetLabels()["refuse"] == string(a.GetOperation()) {
			return admission.NewForbidden(a, errors.New("refused by its label"))
		}
	}
	return nil
}

func (w *admissionRecorder) note(phase string, a admission.Attributes) {
	if opts := a.GetOperationOptions(); opts != nil && opts.GetObjectKind().GroupVersionKind().Empty() {
		w.seen = append(w.seen, "options without a kind, which webhooks cannot decode")
	}
	w.seen = append(w.seen, fmt.Sprintf("%s %s %s/%s %s new=%v old=%v dry=%v user=%s",
		phase, a.GetOperation(), a.GetResource().Resource, a.GetName(), a.GetSubresource(), a.GetObject() != nil,
		a.GetOldObject() != nil, a.IsDryRun(), a.GetUserInfo().GetName()))
}

func (w *admissionRecorder) expect(t *testing.T, want ...string) {
	t.Helper()
	if fmt.Sprintf("%q", w.seen) != fmt.Sprintf("%q", want) {
		t.Errorf("admission saw\n%q, want\n%q", w.seen, want)
	}
	w.seen = nil
}

// Every write passes the mutating, then the validating admission, with its operation, user and
// dry-run flag. A refused write gets 403 and stores nothing.
func TestAdmission(t *testing.T) {
	w := &admissionRecorder{}
	p := apitest.New(t, func(cfg *rest.Config) { cfg.Admission = w })
	created := p.Want(t, 201, "POST", maps, configMap("a", ""))
	assert.Equalf(t, apitest.At(created, "metadata", "annotations", "admitted"), "CREATE", "%v", created)
	w.expect(t, "mutate CREATE configmaps/a  new=true old=false dry=false user=admin",
		"validate CREATE configmaps/a  new=true old=false dry=false user=admin")
	p.Want(t, 200, "PATCH", maps+"/a?dryRun=All", `{"data":{"k":"v"}}`, mergePatch)
	w.expect(t, "mutate UPDATE configmaps/a  new=true old=true dry=true user=admin",
		"validate UPDATE configmaps/a  new=true old=true dry=true user=admin")
	p.Want(t, 200, "PUT", maps+"/a", configMap("a", ""))
	w.expect(t, "mutate UPDATE configmaps/a  new=true old=true dry=false user=admin",
		"validate UPDATE configmaps/a  new=true old=true dry=false user=admin")
	p.Want(t, 200, "DELETE", maps+"/a", "")
	w.expect(t, "mutate DELETE configmaps/a  new=false old=true dry=false user=admin",
		"validate DELETE configmaps/a  new=false old=true dry=false user=admin")

	status := p.Want(t, 403, "POST", maps, configMap("b", `"refuse":"CREATE"`))
	assert.Equalf(t, status["message"], `configmaps "b" is forbidden: refused by its label`, "%v", status)
	p.Want(t, 404, "GET", maps+"/b", "")
	p.Want(t, 201, "POST", maps, configMap("c", `"refuse":"DELETE"`))
	p.Want(t, 403, "DELETE", maps+"/c", "")
	p.Want(t, 200, "GET", maps+"/c", "")
}

// An update that creates an object needs permission to create.
func TestCreateByUpdateIsAuthorized(t *testing.T) {
	p := apitest.New(t, func(cfg *rest.Config) {
		cfg.Authorizer = authorizer.AuthorizerFunc(func(_ context.Context,
			a authorizer.Attributes) (authorizer.Decision, string, error) {
			if a.GetVerb() == "create" && a.GetName() == "no" {
				return authorizer.DecisionNoOpinion, "", nil
			}
			return authorizer.DecisionAllow, "", nil
		})
	})
	const apply = "Content-Type: application/apply-patch+yaml"
	p.Want(t, 201, "PATCH", maps+"/yes?fieldManager=m",
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"yes"}}`, apply)
	status := p.Want(t, 403, "PATCH", maps+"/no?fieldManager=m",
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"no"}}`, apply)
	if status["message"] != `configmaps "no" is forbidden: User "admin" cannot create resource "configmaps" in API group "" in the namespace "default"` {
		t.Errorf("%v", status)
	}
}

// Webhooks decode the options of a request by their kind, also those of a scale.
func TestAdmissionOfScale(t *testing.T) {
	w := &admissionRecorder{}
	p := apitest.New(t, func(cfg *rest.Config) { cfg.Admission = w })
	const path = "/apis/apps/v1/namespaces/default/deployments"
	p.Want(t, 201, "POST", path, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
	w.seen = nil
	p.Want(t, 200, "PUT", path+"/x/scale", `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"x"},"spec":{"replicas":3}}`)
	p.Want(t, 200, "PATCH", path+"/x/scale", `{"spec":{"replicas":4}}`, mergePatch)
	const update = "UPDATE deployments/x scale new=true old=true dry=false user=admin"
	w.expect(t, "mutate "+update, "validate "+update, "mutate "+update, "validate "+update)
}

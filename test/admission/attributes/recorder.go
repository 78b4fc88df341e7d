package attributes

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
)

// Call is one call of a webhook.
type Call struct {
	Path    string // /mutate/NAME or /validate/NAME
	Request *admissionv1.AdmissionRequest
}

// Recorder is a webhook that allows and records all requests. It is safe for concurrent use.
type Recorder struct {
	// CA verifies the certificate of the webhook.
	CA []byte

	server *httptest.Server
	mu     sync.Mutex
	calls  []Call
}

// NewRecorder starts a webhook on a loopback port. The caller must call Close.
func NewRecorder() (*Recorder, error) {
	chain, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, fmt.Errorf("generate the certificate of a webhook: %w", err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("generate the certificate of a webhook: %w", err)
	}
	r := &Recorder{CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: pair.Certificate[len(pair.Certificate)-1]})}
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(r.serve))
	r.server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	r.server.StartTLS()
	return r, nil
}

// URL returns the address of the webhook, without a path.
func (r *Recorder) URL() string { return r.server.URL }

// Close ends the webhook.
func (r *Recorder) Close() { r.server.Close() }

func (r *Recorder) serve(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	review := &admissionv1.AdmissionReview{}
	if err == nil {
		err = json.Unmarshal(body, review)
	}
	if err != nil || review.Request == nil {
		http.Error(w, "not an AdmissionReview", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.calls = append(r.calls, Call{Path: req.URL.Path, Request: review.Request})
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{
		TypeMeta: review.TypeMeta, Response: &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true},
	})
}

// Take returns the calls since the last Take in a fixed order: by path, and calls of one path as
// they came. It omits calls with the attributes of the call before: kube-apiserver calls webhooks
// again for each write of a graceful deletion, and if another write came first.
func (r *Recorder) Take() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	slices.SortStableFunc(calls, func(a, b Call) int { return cmp.Compare(a.Path, b.Path) })
	return slices.CompactFunc(calls, func(a, b Call) bool { return a.Path == b.Path && a.Line(User) == b.Line(User) })
}

// Line returns all attributes of a call but its path as one line of text. It has the identity of
// objects and their field managers instead of their contents, and OWN instead of own.
func (c Call) Line(own string) string {
	r := c.Request
	fields := []string{
		string(r.Operation),
		"kind=" + kind(r.Kind.Group, r.Kind.Version, r.Kind.Kind),
		"resource=" + kind(r.Resource.Group, r.Resource.Version, r.Resource.Resource) + "/" + r.SubResource,
		"requestKind=-", "requestResource=-",
		fmt.Sprintf("namespace=%q name=%q", r.Namespace, generated(r.Name, r.Object.Raw)),
		fmt.Sprintf("dryRun=%s", pointer(r.DryRun)),
		"options=" + uid.ReplaceAllString(string(r.Options.Raw), "UID"),
		"object=" + identity(r.Object.Raw), "oldObject=" + identity(r.OldObject.Raw),
		"user=" + user(&r.UserInfo),
	}
	if r.RequestKind != nil {
		fields[3] = "requestKind=" + kind(r.RequestKind.Group, r.RequestKind.Version, r.RequestKind.Kind)
	}
	if r.RequestResource != nil {
		fields[4] = "requestResource=" + kind(r.RequestResource.Group, r.RequestResource.Version,
			r.RequestResource.Resource) + "/" + r.RequestSubResource
	}
	return strings.ReplaceAll(strings.Join(fields, " "), own, "OWN")
}

// uid matches the UIDs of objects, which are random.
var uid = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func kind(group, version, name string) string {
	if group != "" {
		version = group + "/" + version
	}
	return version + "." + name
}

func pointer(b *bool) string {
	if b == nil {
		return "-"
	}
	return fmt.Sprint(*b)
}

// generated returns a name without its random part.
func generated(name string, object []byte) string {
	var obj struct {
		Metadata struct {
			GenerateName string `json:"generateName"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(object, &obj); err != nil || obj.Metadata.GenerateName == "" || name == "" {
		return name
	}
	return obj.Metadata.GenerateName + "*"
}

// user describes a user. The one of Impersonation has a short form.
func user(u *authenticationv1.UserInfo) string {
	text := fmt.Sprintf("%s %s %s %v", u.Username, u.UID, strings.Join(u.Groups, ","), u.Extra)
	if text == "reviewed u-1 system:masters,system:authenticated map[team:[blue]]" {
		return "(impersonated)"
	}
	return text
}

// writtenLater are kinds to which controllers of kube-apiserver write after the requests.
var writtenLater = []string{"CustomResourceDefinition", "APIService"}

// identity returns apiVersion, kind, namespace, name and field managers of an object; "-" stands
// for none.
func identity(raw []byte) string {
	if len(raw) == 0 || string(raw) == "null" {
		return "-"
	}
	var obj struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Namespace     string                      `json:"namespace"`
			Name          string                      `json:"name"`
			ManagedFields []metav1.ManagedFieldsEntry `json:"managedFields"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &obj); err != nil {
		return "invalid: " + err.Error()
	}
	text := fmt.Sprintf("%s.%s:%s/%s", obj.APIVersion, obj.Kind, obj.Metadata.Namespace,
		generated(obj.Metadata.Name, raw))
	if slices.Contains(writtenLater, obj.Kind) {
		return text
	}
	var managers []string
	for _, entry := range obj.Metadata.ManagedFields {
		managers = append(managers, strings.TrimSuffix(entry.Manager+":"+string(entry.Operation)+":"+entry.Subresource,
			":"))
	}
	slices.Sort(managers) // their order depends on the second in which each wrote
	return text + "[" + strings.Join(managers, ",") + "]"
}

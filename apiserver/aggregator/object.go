package aggregator

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/discovery"
	"kelson.dev/apiserver/store"
)

// Resource is the Resource of APIServices in [store.Key].
const Resource = "apiservices.apiregistration.k8s.io"

// collection is the path of APIServices in the API.
const collection = "/apis/apiregistration.k8s.io/v1/apiservices"

// apiService is the part of an APIService that the aggregator uses.
type apiService struct {
	Metadata struct {
		Name            string            `json:"name"`
		UID             types.UID         `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec   spec `json:"spec"`
	Status struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

// spec has its fields in the order of stored APIServices.
type spec struct {
	Service               *serviceReference `json:"service,omitempty"`
	Group                 string            `json:"group,omitempty"`
	Version               string            `json:"version,omitempty"`
	InsecureSkipTLSVerify bool              `json:"insecureSkipTLSVerify,omitempty"`
	CABundle              []byte            `json:"caBundle,omitempty"`
	GroupPriorityMinimum  int32             `json:"groupPriorityMinimum"`
	VersionPriority       int32             `json:"versionPriority"`
}

type serviceReference struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Port      *int32 `json:"port,omitempty"`
}

// port returns the port of the Service; the default is 443.
func (r *serviceReference) port() int32 {
	if r.Port == nil {
		return 443
	}
	return *r.Port
}

func (s *spec) groupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: s.Group, Version: s.Version}
}

func (s *spec) priorities() discovery.Priorities {
	return discovery.Priorities{Group: s.GroupPriorityMinimum, Version: s.VersionPriority}
}

func (s *spec) equal(other *spec) bool { return reflect.DeepEqual(s, other) }

// condition is one condition of an APIService's status.
type condition struct {
	Type               string      `json:"type"`
	Status             string      `json:"status"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	Reason             string      `json:"reason,omitempty"`
	Message            string      `json:"message,omitempty"`
}

const available = "Available" // type of the condition

// The statuses of conditions.
const (
	isTrue    = string(metav1.ConditionTrue)
	isFalse   = string(metav1.ConditionFalse)
	isUnknown = string(metav1.ConditionUnknown)
)

// localCondition is that of APIServices without a Service.
func localCondition() condition {
	return condition{Type: available, Status: isTrue, Reason: "Local",
		Message: "Local APIServices are always available"}
}

// availability returns the condition Available; its status is Unknown if there is none.
func (s *apiService) availability() condition {
	for _, c := range s.Status.Conditions {
		if c.Type == available {
			return c
		}
	}
	return condition{Type: available, Status: isUnknown}
}

func decode(obj *store.Object) (*apiService, error) {
	s := &apiService{}
	if err := json.Unmarshal(obj.Data, s); err != nil {
		return nil, fmt.Errorf("decode APIService %s as stored: %w", obj.Key.Name, err)
	}
	return s, nil
}

// nameOf returns the name of the APIService of a group version.
func nameOf(gv schema.GroupVersion) string { return gv.Version + "." + gv.Group }

// versionOf returns the group version in the name of an APIService.
func versionOf(name string) schema.GroupVersion {
	version, group, _ := strings.Cut(name, ".")
	return schema.GroupVersion{Group: group, Version: version}
}

// root returns the path below which a group version is served.
func root(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}

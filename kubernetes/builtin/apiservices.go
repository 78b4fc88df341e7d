package builtin

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	"k8s.io/kube-aggregator/pkg/registry/apiservice"
	"k8s.io/kubernetes/pkg/printers"
)

// apiServices returns the kind APIService. The engine's package aggregator serves what these
// objects describe.
func apiServices() []entry {
	return []entry{{hub: &apiregistration.APIService{}, plural: "apiservices", versions: v1, categories: extensions,
		storagePath: "apiregistration.k8s.io/apiservices",
		strategy:    apiservice.NewStrategy(Scheme()), status: apiservice.NewStatusStrategy(Scheme())}}
}

// apiServiceColumns adds the table columns of APIServices to those of Kubernetes' own kinds.
func apiServiceColumns(h printers.PrintHandler) {
	columns := []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
		{Name: "Service", Type: "string", Description: "The service that serves the version; Local for the control plane itself."},
		{Name: "Available", Type: "string", Description: "Whether the version is served, and why not."},
		{Name: "Age", Type: "string", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
	}
	if err := h.TableHandler(columns, apiServiceRow); err != nil {
		// the function's signature is wrong
		panic(fmt.Errorf("add the table of APIServices: %w", err))
	}
}

func apiServiceRow(s *apiregistration.APIService, _ printers.GenerateOptions) ([]metav1.TableRow, error) {
	service, available := "Local", string(apiregistration.ConditionUnknown)
	if ref := s.Spec.Service; ref != nil {
		service = ref.Namespace + "/" + ref.Name
	}
	for _, c := range s.Status.Conditions {
		if c.Type != apiregistration.Available {
			continue
		}
		available = string(c.Status)
		if c.Status != apiregistration.ConditionTrue && c.Reason != "" {
			available += " (" + c.Reason + ")"
		}
	}
	age := "<unknown>"
	if !s.CreationTimestamp.IsZero() {
		age = duration.HumanDuration(metav1.Now().Sub(s.CreationTimestamp.Time))
	}
	return []metav1.TableRow{{Cells: []any{s.Name, service, available, age}, Object: runtime.RawExtension{Object: s}}},
		nil
}

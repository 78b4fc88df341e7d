package apiserver_test

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver"
)

// A server in process, and a transaction over two kinds.
func ExampleServer_Transact() {
	s, err := apiserver.New(context.Background(),
		apiserver.Group(group,
			apiserver.Kind(&pizza{TypeMeta: typeMeta("v1beta1", "Pizza")},
				apiserver.Version(&oldPizza{TypeMeta: typeMeta("v1alpha1", "Pizza")}), pizzaRules{}),
			apiserver.Kind(&topping{TypeMeta: typeMeta("v1alpha1", "Topping")}, apiserver.ClusterScoped())),
		apiserver.Admission(toppingsExist))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Stop()
	err = s.Transact(context.Background(), func(tx *apiserver.Tx) error {
		if _, err := apiserver.Get[*topping](tx, "", "ham"); apierrors.IsNotFound(err) {
			if err := tx.Create(&topping{ObjectMeta: metav1.ObjectMeta{Name: "ham"}}); err != nil {
				return err
			}
		}
		return tx.Create(&pizza{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "toscana"},
			Spec:       pizzaSpec{Toppings: []pizzaTopping{{Name: "ham"}}},
		})
	})
	fmt.Println(err)
	_ = s.Transact(context.Background(), func(tx *apiserver.Tx) error {
		old, err := apiserver.Get[*oldPizza](tx, "default", "toscana")
		fmt.Println(old.Spec.Size, old.Spec.Toppings, err)
		return err
	})
	// Output:
	// <nil>
	// medium [ham] <nil>
}

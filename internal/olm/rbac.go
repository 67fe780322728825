package olm

import (
	"cmp"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// defaultAccount is in every namespace already.
const defaultAccount = "default"

// accounts are the ServiceAccounts that the permissions and the pods name.
func (r render) accounts() []runtime.Object {
	var names []string
	for _, each := range slices.Concat(r.strategy().Permissions, r.strategy().ClusterPermissions) {
		names = append(names, each.ServiceAccountName)
	}
	for _, each := range r.strategy().DeploymentSpecs {
		names = append(names, each.Spec.Template.Spec.ServiceAccountName)
	}
	slices.Sort(names)
	var made []runtime.Object
	for _, name := range slices.Compact(names) {
		if name == "" || name == defaultAccount {
			continue
		}
		made = append(made, &corev1.ServiceAccount{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name},
		})
	}
	return made
}

// permissions are the Roles and ClusterRoles, each with its binding. Permissions
// of a namespace are given in the operator's own and in each that it watches; for
// an operator of all namespaces they become permissions of the cluster, and it
// may look at namespaces, as OLM has it.
func (r render) permissions() []runtime.Object {
	var made []runtime.Object
	cluster := r.strategy().ClusterPermissions
	namespaced := r.strategy().Permissions
	if r.all() {
		for _, each := range namespaced {
			cluster = append(slices.Clone(cluster), v1alpha1.StrategyDeploymentPermissions{
				ServiceAccountName: each.ServiceAccountName,
				Rules: append(slices.Clone(each.Rules), rbacv1.PolicyRule{
					APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"},
				}),
			})
		}
		namespaced = nil
	}
	for _, each := range byAccount(cluster) {
		made = append(made, r.clusterRole(each)...)
	}
	namespaces := append(slices.Clone(r.targets), r.namespace)
	slices.Sort(namespaces)
	for _, each := range byAccount(namespaced) {
		for _, namespace := range slices.Compact(slices.Clone(namespaces)) {
			made = append(made, r.role(each, namespace)...)
		}
	}
	return made
}

// byAccount joins the permissions of each account, which may come in several
// pieces, in the order of the accounts' names.
func byAccount(permissions []v1alpha1.StrategyDeploymentPermissions) []v1alpha1.StrategyDeploymentPermissions {
	var joined []v1alpha1.StrategyDeploymentPermissions
	for _, each := range permissions {
		at := slices.IndexFunc(joined, func(j v1alpha1.StrategyDeploymentPermissions) bool {
			return j.ServiceAccountName == each.ServiceAccountName
		})
		if at < 0 {
			joined = append(joined, v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: each.ServiceAccountName})
			at = len(joined) - 1
		}
		joined[at].Rules = append(joined[at].Rules, each.Rules...)
	}
	slices.SortStableFunc(joined, func(a, b v1alpha1.StrategyDeploymentPermissions) int {
		return cmp.Compare(a.ServiceAccountName, b.ServiceAccountName)
	})
	return joined
}

func (r render) clusterRole(permissions v1alpha1.StrategyDeploymentPermissions) []runtime.Object {
	// Names of the cluster carry the namespace: two installs don't share them.
	name := joined(r.bundle.Package, r.namespace, permissions.ServiceAccountName)
	return []runtime.Object{
		&rbacv1.ClusterRole{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules:      permissions.Rules,
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects:   r.subjects(permissions.ServiceAccountName),
		},
	}
}

func (r render) role(permissions v1alpha1.StrategyDeploymentPermissions, namespace string) []runtime.Object {
	name := joined(r.bundle.Package, permissions.ServiceAccountName)
	return []runtime.Object{
		&rbacv1.Role{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Rules:      permissions.Rules,
		},
		&rbacv1.RoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects:   r.subjects(permissions.ServiceAccountName),
		},
	}
}

func (r render) subjects(account string) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: r.namespace}}
}

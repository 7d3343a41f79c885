// Package openshift pins the definitions of OpenShift's operator resources.
//
// The KMS reporter writes into resources of other people, whose schemas decide
// what can be stored. Tests use the published files, so that a field that those
// require is missed here and not in a cluster. There is no program to build:
// the files of zz_generated.crd-manifests of operator/v1 and config/v1 are copied
// out of the module.
package openshift

// Keeps the requirement when the module is tidied.
import _ "github.com/openshift/api/operator/v1"

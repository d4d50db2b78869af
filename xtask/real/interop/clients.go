package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

const appLabel = "interop"

// clientRun is what the steps of client-go share.
type clientRun struct {
	clients   kubernetes.Interface
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	namespace string
	maps      corelisters.ConfigMapLister
}

func clientSteps(config *rest.Config) ([]step, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	run := &clientRun{clients: clients, dynamic: dynamicClient, metadata: metadataClient}
	return []step{
		{"create a Namespace with a generated name", run.createNamespace},
		{"start an informer and wait until it is synced", run.startInformer},
		{"create, read and update a ConfigMap", run.writeConfigMap},
		{"an update with an old resourceVersion is a conflict", run.conflict},
		{"patch a ConfigMap in three ways", run.patch},
		{"the informer shows the last state", run.observe},
		{"the dynamic and the metadata client read the same object", run.others},
		{"create and renew a Lease", run.lease},
		{"a Deployment becomes available", run.deployment},
		{"read and write its scale", run.scale},
		{"evict one of its Pods", run.evict},
		{"a token of a ServiceAccount is reviewed as its user", run.token},
		{"ask for rights", run.review},
		{"list in pages", run.pages},
		{"delete a collection", run.deleteCollection},
		{"errors have the reasons that helpers test", run.reasons},
		{"delete the Namespace and see it go", run.deleteNamespace},
	}, nil
}

func (run *clientRun) createNamespace(ctx context.Context) error {
	made, err := run.clients.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "client-go-"},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	run.namespace = made.Name
	return expect(len(made.Name) == len("client-go-")+5 && made.UID != "", "its name is %q", made.Name)
}

func (run *clientRun) startInformer(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(run.clients, 0, informers.WithNamespace(run.namespace))
	maps := factory.Core().V1().ConfigMaps()
	informer := maps.Informer()
	run.maps = maps.Lister()
	factory.Start(ctx.Done())
	return expect(cache.WaitForCacheSync(ctx.Done(), informer.HasSynced), "not synced")
}

func (run *clientRun) writeConfigMap(ctx context.Context) error {
	maps := run.clients.CoreV1().ConfigMaps(run.namespace)
	made, err := maps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings", Labels: map[string]string{"app": appLabel}},
		Data:       map[string]string{"color": "blue"},
		BinaryData: map[string][]byte{"raw": {0, 255, 7}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	read, err := maps.Get(ctx, "settings", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := expect(read.ResourceVersion == made.ResourceVersion && read.BinaryData["raw"][1] == 255, "read back: %v", read); err != nil {
		return err
	}
	read.Data["color"] = "green"
	updated, err := maps.Update(ctx, read, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	return expect(updated.ResourceVersion != made.ResourceVersion, "the resourceVersion stayed")
}

func (run *clientRun) conflict(ctx context.Context) error {
	maps := run.clients.CoreV1().ConfigMaps(run.namespace)
	read, err := maps.Get(ctx, "settings", metav1.GetOptions{})
	if err != nil {
		return err
	}
	read.Data["size"] = "large"
	if _, err := maps.Update(ctx, read, metav1.UpdateOptions{}); err != nil {
		return err
	}
	_, err = maps.Update(ctx, read, metav1.UpdateOptions{})
	return expect(errors.IsConflict(err), "the answer is %v", err)
}

func (run *clientRun) patch(ctx context.Context) error {
	maps := run.clients.CoreV1().ConfigMaps(run.namespace)
	for _, one := range []struct {
		form types.PatchType
		body string
	}{
		{types.StrategicMergePatchType, `{"data":{"strategic":"yes"}}`},
		{types.MergePatchType, `{"data":{"merge":"yes"}}`},
		{types.JSONPatchType, `[{"op":"add","path":"/data/json","value":"yes"}]`},
	} {
		if _, err := maps.Patch(ctx, "settings", one.form, []byte(one.body), metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("%s: %w", one.form, err)
		}
	}
	read, err := maps.Get(ctx, "settings", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return expect(read.Data["strategic"]+read.Data["merge"]+read.Data["json"] == "yesyesyes", "data: %v", read.Data)
}

func (run *clientRun) observe(ctx context.Context) error {
	return until(ctx, "the informer's copy", func() (bool, error) {
		seen, err := run.maps.ConfigMaps(run.namespace).Get("settings")
		if errors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return seen.Data["json"] == "yes", nil
	})
}

func (run *clientRun) others(ctx context.Context) error {
	resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	object, err := run.dynamic.Resource(resource).Namespace(run.namespace).Get(ctx, "settings", metav1.GetOptions{})
	if err != nil {
		return err
	}
	partial, err := run.metadata.Resource(resource).Namespace(run.namespace).Get(ctx, "settings", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return expect(object.GetUID() == partial.UID && partial.Labels["app"] == appLabel, "%v and %v", object.GetUID(), partial)
}

func (run *clientRun) lease(ctx context.Context) error {
	leases := run.clients.CoordinationV1().Leases(run.namespace)
	now := metav1.NowMicro()
	made, err := leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "lock"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("a"), RenewTime: &now},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := expect(made.Spec.RenewTime.Equal(&metav1.MicroTime{Time: now.Truncate(1000)}), "renewTime %v for %v", made.Spec.RenewTime, now); err != nil {
		return err
	}
	made.Spec.HolderIdentity = ptr.To("b")
	_, err = leases.Update(ctx, made, metav1.UpdateOptions{})
	return err
}

func (run *clientRun) deployment(ctx context.Context) error {
	deployments := run.clients.AppsV1().Deployments(run.namespace)
	selected := map[string]string{"app": appLabel}
	_, err := deployments.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: selected},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selected},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return run.untilAvailable(ctx, 2)
}

func (run *clientRun) untilAvailable(ctx context.Context, count int32) error {
	return until(ctx, "available replicas", func() (bool, error) {
		read, err := run.clients.AppsV1().Deployments(run.namespace).Get(ctx, "web", metav1.GetOptions{})
		return err == nil && read.Status.AvailableReplicas == count, err
	})
}

func (run *clientRun) scale(ctx context.Context) error {
	deployments := run.clients.AppsV1().Deployments(run.namespace)
	scale, err := deployments.GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := expect(scale.Spec.Replicas == 2 && scale.Status.Selector == "app="+appLabel, "scale: %v", scale); err != nil {
		return err
	}
	scale.Spec = autoscalingv1.ScaleSpec{Replicas: 3}
	if _, err := deployments.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return run.untilAvailable(ctx, 3)
}

func (run *clientRun) evict(ctx context.Context) error {
	pods, err := run.clients.CoreV1().Pods(run.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + appLabel})
	if err != nil {
		return err
	}
	if err := expect(len(pods.Items) == 3, "%d Pods", len(pods.Items)); err != nil {
		return err
	}
	victim := pods.Items[0]
	if err := run.clients.PolicyV1().Evictions(run.namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Name: victim.Name, Namespace: run.namespace},
	}); err != nil {
		return err
	}
	return until(ctx, "the evicted Pod's end", func() (bool, error) {
		read, err := run.clients.CoreV1().Pods(run.namespace).Get(ctx, victim.Name, metav1.GetOptions{})
		if errors.IsNotFound(err) {
			return true, nil
		}
		return err == nil && read.UID != victim.UID, err
	})
}

func (run *clientRun) token(ctx context.Context) error {
	accounts := run.clients.CoreV1().ServiceAccounts(run.namespace)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	token, err := accounts.CreateToken(ctx, "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	review, err := run.clients.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	user := "system:serviceaccount:" + run.namespace + ":robot"
	return expect(review.Status.Authenticated && review.Status.User.Username == user, "review: %v", review.Status)
}

func (run *clientRun) review(ctx context.Context) error {
	attributes := &authorizationv1.ResourceAttributes{Namespace: run.namespace, Verb: "create", Resource: "pods"}
	review, err := run.clients.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return expect(review.Status.Allowed, "the administrator may not create Pods: %v", review.Status)
}

func (run *clientRun) pages(ctx context.Context) error {
	secrets := run.clients.CoreV1().Secrets(run.namespace)
	for number := range 5 {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s-%d", number), Labels: map[string]string{"app": appLabel}}}
		if _, err := secrets.Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	names, next, pages := map[string]bool{}, "", 0
	for {
		page, err := secrets.List(ctx, metav1.ListOptions{Limit: 2, Continue: next, LabelSelector: "app=" + appLabel})
		if err != nil {
			return err
		}
		for _, secret := range page.Items {
			names[secret.Name] = true
		}
		pages++
		if next = page.Continue; next == "" {
			break
		}
	}
	return expect(len(names) == 5 && pages == 3, "%d Secrets in %d pages", len(names), pages)
}

func (run *clientRun) deleteCollection(ctx context.Context) error {
	secrets := run.clients.CoreV1().Secrets(run.namespace)
	selected := metav1.ListOptions{LabelSelector: labels.Set{"app": appLabel}.String()}
	if err := secrets.DeleteCollection(ctx, metav1.DeleteOptions{}, selected); err != nil {
		return err
	}
	left, err := secrets.List(ctx, selected)
	if err != nil {
		return err
	}
	return expect(len(left.Items) == 0, "%d are left", len(left.Items))
}

func (run *clientRun) reasons(ctx context.Context) error {
	maps := run.clients.CoreV1().ConfigMaps(run.namespace)
	_, err := maps.Get(ctx, "nothing", metav1.GetOptions{})
	if err := expect(errors.IsNotFound(err), "not found: %v", err); err != nil {
		return err
	}
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}, metav1.CreateOptions{})
	if err := expect(errors.IsAlreadyExists(err), "already exists: %v", err); err != nil {
		return err
	}
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "Not A Name"}}, metav1.CreateOptions{})
	return expect(errors.IsInvalid(err), "invalid: %v", err)
}

func (run *clientRun) deleteNamespace(ctx context.Context) error {
	namespaces := run.clients.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, run.namespace, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return until(ctx, "the Namespace's end", func() (bool, error) {
		_, err := namespaces.Get(ctx, run.namespace, metav1.GetOptions{})
		if errors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

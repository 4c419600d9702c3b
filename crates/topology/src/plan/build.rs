//! Puts a plan together.

use std::time::Duration;

use everdict_contracts::{Acquire, Fault, ServiceHarness};

use super::identity::Identity;
use super::{
    BrowserPlan, MountPlan, PlanContext, ReadinessPlan, ServicePlan, StorePlan, TopologyKey, TopologyPlan,
    check, limits, pins, volumes, waves,
};
use crate::images::ImageRef;
use crate::{env, labels, names, stores};

/// Port of the DevTools protocol in every browser image.
const CDP_PORT: u16 = 9222;
/// Stands for the topology's name until the digest, which the name follows from, is known.
const DRAFT: &str = "draft";

pub(super) fn plan(spec: &ServiceHarness, context: &PlanContext<'_>) -> Result<TopologyPlan, Fault> {
    let spec = &pins::apply(spec, context.pins)?;
    check::spec(spec, context.policy)?;
    let needs = waves::needs(&spec.services);
    let waves = waves::waves(&spec.services, &needs)?;
    let key = TopologyKey {
        tenant: context.tenant.to_owned(),
        harness: spec.id.clone(),
        version: spec.version.clone(),
    };
    let draft = Members::plan(spec, context, &needs, DRAFT)?;
    let identity = Identity {
        key: &key,
        stores: &draft.stores,
        services: &draft.services,
        network: context.network,
        stem: DRAFT,
    };
    let digest = identity.digest(context.digest_key);
    let name = names::topology(&context.owner.install, &key, &digest);
    let members = Members::plan(spec, context, &needs, &name)?;
    let browser = browser(spec, context)?;
    Ok(TopologyPlan {
        labels: labels::of_topology(context.owner, &name, &key, &digest),
        volumes: volume_names(&members.services),
        key,
        digest,
        name,
        stores: members.stores,
        services: members.services,
        waves,
        browser,
        network: context.network.clone(),
    })
}

/// The containers of a topology.
struct Members {
    stores: Vec<StorePlan>,
    services: Vec<ServicePlan>,
}

impl Members {
    fn plan(
        spec: &ServiceHarness,
        context: &PlanContext<'_>,
        needs: &[Vec<usize>],
        topology: &str,
    ) -> Result<Self, Fault> {
        let stores = stores::plan(&spec.id, topology, &spec.dependencies, context);
        for store in &stores {
            stock_image(&store.image)?;
        }
        let services = (0..spec.services.len())
            .map(|index| service(spec, index, context, (needs, &stores, topology)))
            .collect::<Result<_, _>>()?;
        Ok(Self { stores, services })
    }
}

fn service(
    spec: &ServiceHarness,
    index: usize,
    context: &PlanContext<'_>,
    (needs, stores, topology): (&[Vec<usize>], &[StorePlan], &str),
) -> Result<ServicePlan, Fault> {
    let service = &spec.services[index];
    let path = format!("harnessSpec.services[{index}]");
    let resources = service.resources.unwrap_or_default();
    let limits = limits::of_service(resources)
        .map_err(|(field, why)| Fault::bad_request(format!("{path}.resources.{field}: {why}")))?;
    let readiness = service
        .readiness
        .map_or(context.readiness, |readiness| ReadinessPlan {
            timeout: Duration::from_millis(readiness.timeout_ms),
            interval: Duration::from_millis(readiness.interval_ms),
        });
    let mut mounts: Vec<MountPlan> = Vec::new();
    for (place, entry) in service.volumes.iter().flatten().enumerate() {
        let refuse = |why: String| Fault::bad_request(format!("{path}.volumes[{place}]: {why}"));
        let mount =
            volumes::mount(entry, topology, &service.name, &context.policy.volumes).map_err(refuse)?;
        if mounts.iter().any(|earlier| earlier.target() == mount.target()) {
            return Err(refuse(format!(
                "something is mounted at `{}` already; mount it once",
                mount.target()
            )));
        }
        mounts.push(mount);
    }
    Ok(ServicePlan {
        container: names::member(topology, &service.name),
        aliases: vec![service.name.clone()],
        image: service.image.clone().unwrap_or_default(),
        env: env::merge(spec, index, stores, context.store_env)?,
        port: service.port.and_then(|port| u16::try_from(port).ok()),
        mounts,
        limits,
        gpus: resources.gpu,
        readiness,
        may_finish: service.port.is_none(),
        needs: needs[index].clone(),
        needed: needs.iter().any(|peers| peers.contains(&index)),
        name: service.name.clone(),
        path,
    })
}

/// The harness's own image brings its own arguments.
fn browser(spec: &ServiceHarness, context: &PlanContext<'_>) -> Result<Option<BrowserPlan>, Fault> {
    let Some(target) = &spec.target else {
        return Ok(None);
    };
    if matches!(target.acquire, Some(Acquire::Service(_))) {
        return Ok(None);
    }
    let (image, args, path) = match &target.extension {
        Some(extension) => (
            extension.r#ref.clone(),
            Vec::new(),
            "harnessSpec.target.extension.ref",
        ),
        None => {
            stock_image(&context.images.browser)?;
            let args = vec!["--remote-allow-origins=*".to_owned()];
            (context.images.browser.clone(), args, "harnessSpec.target")
        }
    };
    Ok(Some(BrowserPlan {
        image,
        args,
        port: CDP_PORT,
        limits: limits::of_browser(),
        shm_bytes: limits::BROWSER_SHM_BYTES,
        readiness: context.readiness,
        extension: target.extension.is_some(),
        path: path.to_owned(),
    }))
}

fn stock_image(image: &str) -> Result<ImageRef, Fault> {
    ImageRef::parse(image)
        .map_err(|error| Fault::bad_request(format!("runner settings: {error}")).caused_by(error))
}

fn volume_names(services: &[ServicePlan]) -> Vec<String> {
    let mut names: Vec<String> = services
        .iter()
        .flat_map(|service| &service.mounts)
        .filter_map(|mount| match mount {
            MountPlan::Volume { volume, .. } => Some(volume.clone()),
            MountPlan::Host { .. } => None,
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

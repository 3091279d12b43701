"""The bodies of the paper's robots as MJCF, with the numbers that Bullet really uses.

Bullet's getDynamicsInfo and getJointInfo tell them after Bullet has read half_cheetah.xml and ant.xml. MuJoCo reads
other numbers from the same files: see `docs/replica.md`.
"""

import math

SUB_STEPS = 4
TIME_STEP = 0.0165 / SUB_STEPS
AXIS = math.sqrt(2.0)  # the length of the axes of the ant's ankles
# Bullet sorts the limits of joints in every step with a sort that is not stable; this order comes out.
ORDER = {"cheetah": (2, 1, 0, 3, 5, 4), "ant": (2, 3, 0, 1, 6, 7, 4, 5)}


def _options(friction: float) -> str:
    return f"""
  <compiler angle="radian" autolimits="true"/>
  <option timestep="{TIME_STEP}" gravity="0 0 -9.8"><flag constraint="disable"/></option>
  <default>
    <geom contype="0" conaffinity="0" friction="{friction:.6g} 0 0"/>
    <motor ctrllimited="true" ctrlrange="-1 1"/>
  </default>"""


# body: mass, inertia about the origin of the body, which is its center of mass in Bullet
CHEETAH_INERTIA = {
    "torso": (9.45733335583469, (0.11850954790425451, 1.5646349198758465, 1.4927563304017173)),
    "bthigh": (2.3355269537212036, (0.026652967211981606, 0.043289211762144474, 0.019930894585686074)),
    "bshin": (2.4020031892472424, (0.014834623910841841, 0.043925331488187634, 0.032479133422815595)),
    "bfoot": (10.0, (0.07927708076065788, 0.09446023602144789, 0.029289821982292942)),
    "fthigh": (2.1759843846871485, (0.024566760558901394, 0.035076196006900914, 0.013579024098597145)),
    "fshin": (1.8170134062463057, (0.015169275220180781, 0.023169122181025216, 0.010563047215886386)),
    "ffoot": (10.0, (0.05643309656387259, 0.08506240486834088, 0.04273597502597122)),
}
CHEETAH_POWERS = {"bthigh": 108.0, "bshin": 81.0, "bfoot": 54.0, "fthigh": 126.0, "fshin": 54.0, "ffoot": 27.0}


def _inertial(mass: float, inertia: tuple[float, float, float], pos: str = "0 0 0") -> str:
    return f'<inertial pos="{pos}" mass="{mass!r}" diaginertia="{" ".join(map(repr, inertia))}"/>'


def _leg(name: str, pos: str, limits: str, geom: str, inside: str) -> str:
    return f"""
      <body name="{name}" pos="{pos}">
        {_inertial(*CHEETAH_INERTIA[name])}
        <joint name="{name}" type="hinge" axis="0 1 0" range="{limits}"/>
        <geom name="{name}" type="capsule" {geom}/>{inside}
      </body>"""


def cheetah_xml() -> str:
    """Return the half cheetah as Bullet sees it."""
    bfoot = _leg("bfoot", "-.28 0 -.14", "-.4 .785", 'axisangle="0 1 0 -.27" pos=".03 0 -.097" size="0.046 .094"', "")
    bshin = _leg(
        "bshin", ".16 0 -.25", "-.785 .785", 'axisangle="0 1 0 -2.03" pos="-.14 0 -.07" size="0.046 .15"', bfoot
    )
    bthigh = _leg("bthigh", "-.5 0 0", "-.52 1.05", 'axisangle="0 1 0 -3.8" pos=".1 0 -.13" size="0.046 .145"', bshin)
    ffoot = _leg("ffoot", ".13 0 -.18", "-3.1 -0.3", 'axisangle="0 1 0 -.6" pos=".045 0 -.07" size="0.046 .07"', "")
    fshin = _leg("fshin", "-.14 0 -.24", "-1.2 1.1", 'axisangle="0 1 0 -.6" pos=".065 0 -.09" size="0.046 .106"', ffoot)
    fthigh = _leg("fthigh", ".5 0 0", "-1.5 0.8", 'axisangle="0 1 0 .52" pos="-.07 0 -.12" size="0.046 .133"', fshin)
    motors = "".join(f'\n    <motor name="{n}" joint="{n}" gear="{p}"/>' for n, p in CHEETAH_POWERS.items())
    return f"""<mujoco model="cheetah">{_options(0.8 * 0.8)}
  <worldbody>
    <body name="torso" pos="0 0 .7">
      {_inertial(*CHEETAH_INERTIA["torso"])}
      <joint name="ignorex" type="slide" axis="1 0 0"/>
      <joint name="ignorez" type="slide" axis="0 0 1"/>
      <joint name="ignorey" type="hinge" axis="0 1 0"/>
      <geom name="torso" type="capsule" fromto="-.5 0 0 .5 0 0" size="0.046"/>
      <geom name="head" type="capsule" axisangle="0 1 0 .87" pos=".6 0 .1" size="0.046 .15"/>{bthigh}{fthigh}
    </body>
  </worldbody>
  <actuator>{motors}
  </actuator>
</mujoco>"""


ANT_TORSO = (65.44984694978736, (1.636246173744684,) * 3)
ANT_LEG = (7.83155043240011, (0.16394045425561246, 0.16394045425561246, 0.2526980266008083))
ANT_FOOT = (13.518440423760284, (0.5263179486691557, 0.5263179486691557, 0.9228588731378696))
ANT_POWER = 250.0
ANT_LEGS = {  # leg: number, x, y, axis of the ankle, limits of the ankle in degrees
    "front_left": (1, 1, 1, "-1 1 0", (30, 100)),
    "front_right": (2, -1, 1, "1 1 0", (-100, -30)),
    "left_back": (3, -1, -1, "-1 1 0", (-100, -30)),
    "right_back": (4, 1, -1, "1 1 0", (30, 100)),
}


def ant_xml() -> str:
    """Return the ant as Bullet sees it, apart from the rates of its ankles."""
    legs, motors = "", ""
    for name, (number, x, y, axis, limits) in ANT_LEGS.items():
        low, high = (math.radians(limit) for limit in limits)
        side, hip = f"{0.2 * x} {0.2 * y} 0", math.radians(40)
        capsule = 'type="capsule" size="0.08"'
        legs += f"""
      <body name="{name}_leg">
        {_inertial(*ANT_LEG, f"{0.1 * x} {0.1 * y} 0")}
        <geom name="aux_{number}_geom" {capsule} fromto="0 0 0 {side}"/>
        <body name="aux_{number}" pos="{side}">
          {_inertial(*ANT_LEG, f"{0.1 * x} {0.1 * y} 0")}
          <joint name="hip_{number}" type="hinge" axis="0 0 1" range="{-hip!r} {hip!r}"/>
          <geom name="leg_{number}_geom" {capsule} fromto="0 0 0 {side}"/>
          <body name="{name}_foot" pos="{side}">
            {_inertial(*ANT_FOOT, f"{0.2 * x} {0.2 * y} 0")}
            <joint name="ankle_{number}" type="hinge" axis="{axis}" range="{low!r} {high!r}"/>
            <geom name="{name}_foot" {capsule} fromto="0 0 0 {0.4 * x} {0.4 * y} 0"/>
          </body>
        </body>
      </body>"""
        motors += f'\n    <motor name="hip_{number}" joint="hip_{number}" gear="{ANT_POWER}"/>'
        motors += f'\n    <motor name="ankle_{number}" joint="ankle_{number}" gear="{ANT_POWER / AXIS!r}"/>'
    return f"""<mujoco model="ant">{_options(1.5 * 0.8)}
  <worldbody>
    <body name="torso" pos="0 0 0.75">
      {_inertial(*ANT_TORSO)}
      <freejoint name="root"/>
      <geom name="torso" type="sphere" size="0.25"/>{legs}
    </body>
  </worldbody>
  <actuator>{motors}
  </actuator>
</mujoco>"""


XML = {"cheetah": cheetah_xml, "ant": ant_xml}

# geom: the height below which Bullet makes a contact, 0.02 of the size that Bullet gives to the link
NEAR = {
    "cheetah": {
        "torso": 0.01680706,
        "head": 0.01680706,
        "bthigh": 0.00808529,
        "bshin": 0.00790446,
        "bfoot": 0.00552088,
        "fthigh": 0.00727182,
        "fshin": 0.0062388,
        "ffoot": 0.00498907,
    },
    "ant": {
        "torso": 0.00866025,
        **{f"aux_{number}_geom": 0.00666933 for number in (1, 2, 3, 4)},
        **{f"leg_{number}_geom": 0.00666933 for number in (1, 2, 3, 4)},
        **{f"{leg}_foot": 0.00936376 for leg in ANT_LEGS},
    },
}

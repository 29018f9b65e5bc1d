"""The material of the desk's shop and its customers: names, options, places, services."""

from collections.abc import Mapping

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "color": ("black", "white", "silver", "red", "blue", "green"),
    "size": ("small", "medium", "large"),
    "material": ("steel", "glass", "plastic", "bamboo", "ceramic"),
    "power": ("battery", "mains", "solar"),
    "warranty": ("one year", "two years", "five years"),
    "finish": ("matte", "glossy", "brushed"),
}
"""The options that a product's items differ in, with their values."""
PRODUCTS = (
    *("Air Purifier", "Alarm Clock", "Baby Monitor", "Bathroom Scale", "Blender"),
    *("Bluetooth Speaker", "Bookshelf", "Bread Maker", "Ceiling Fan", "Coffee Grinder"),
    *("Coffee Maker", "Cordless Drill", "Desk Lamp", "Digital Camera", "Door Sensor"),
    *("Electric Blanket", "Electric Kettle", "Espresso Machine", "Floor Lamp", "Food Processor"),
    *("Garden Hose", "Hair Dryer", "Hand Mixer", "Headphones", "Heater"),
    *("Humidifier", "Ice Maker", "Induction Hob", "Label Printer", "Laundry Basket"),
    *("Mechanical Keyboard", "Microscope", "Mirror Cabinet", "Monitor Arm", "Office Chair"),
    *("Patio Umbrella", "Picture Frame", "Pressure Cooker", "Projector", "Radio"),
    *("Rice Cooker", "Robot Vacuum", "Sewing Machine", "Shower Head", "Smart Thermostat"),
    *("Standing Desk", "Steam Iron", "Toaster", "Wall Clock", "Water Filter"),
)
FIRST_NAMES = (
    *("Amara", "Boris", "Chiara", "Dmitri", "Elena", "Farid", "Greta", "Hiro", "Ines", "Jonas"),
    *("Kavya", "Liam", "Mei", "Noah", "Olga", "Pedro", "Quentin", "Rosa", "Sven", "Tariq"),
)
LAST_NAMES = (
    *("Almeida", "Berg", "Castillo", "Dubois", "Eriksen", "Fischer", "Garcia", "Haddad"),
    *("Ivanov", "Jansen", "Kovacs", "Lopez", "Mori", "Novak", "Okafor", "Petrov", "Rossi"),
)
STREETS = ("Oak", "Maple", "Cedar", "Hill", "Lake", "River", "Sunset", "Park", "Mill", "Church")
WAYS = ("Street", "Avenue", "Road", "Drive", "Lane")
CITIES: Mapping[str, str] = {
    "Austin": "TX",
    "Boston": "MA",
    "Chicago": "IL",
    "Denver": "CO",
    "Seattle": "WA",
}
"""Where customers live and visits take place, with the state."""
SERVICES = ("boiler service", "oven repair", "heater installation", "leak inspection")
TODAY = "2026-05-04"
DAYS = tuple(f"2026-05-{day:02d}" for day in range(5, 19))
"""When visits take place."""
TIMES = ("08:00", "09:30", "11:00", "13:30", "15:00", "16:30")
BRANDS = ("visa", "mastercard", "amex")
